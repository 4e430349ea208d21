"""How an action may end other than well."""


class Passing(Exception):
    """It did not work now: another try may."""


class Refused(Exception):
    """It will not work, however often it is tried."""
