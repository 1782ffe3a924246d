"""`python -m solar` is the command `solar`, for starters such as torchrun."""

from solar.cli import main

main()
