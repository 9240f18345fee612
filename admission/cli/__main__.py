"""`python -m admission.cli`: the command line."""

from admission.cli.main import main

main(prog_name="quota-admission")
