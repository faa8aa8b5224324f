"""Under a client of servers of the Model Context Protocol."""
