"""Under any client that is built on httpx or httpx2."""
