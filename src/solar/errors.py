"""The one exception that means: the person at the keyboard can fix this."""


class SolarError(ValueError):
    """A user's mistake, told in one sentence that says what to do.

    The command line prints the sentence and exits with code 2; it never shows a traceback for it.
    """
