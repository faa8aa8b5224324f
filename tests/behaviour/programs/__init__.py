"""Programs that tests of this folder run in processes of their own."""
