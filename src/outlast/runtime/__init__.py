"""What makes runs happen in a process: worker, writer, leases, takeover, parking, drain."""
