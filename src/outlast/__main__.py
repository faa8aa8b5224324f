"""`python -m outlast` is the same as `outlast`."""

from outlast.cli import main

main()
