"""`python -m certs` is the command `quota-admission-certs`."""

from certs.cli import main

main(prog_name="quota-admission-certs")
