"""What the hardware said, in plain frozen values; and the errors that are not bugs. Standard library only."""


class UserError(Exception):
    """What an operator did wrong: lines that say what and where; the command exits 2."""
