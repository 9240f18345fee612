"""The errors of the package; how they hang together is drawn in the docstring of `certs`.

What each means for a caller: `NameFormatError` and `LifetimeError` are wrong input, `FolderError` is worth another try
once the folder is in order, `AuthorityError`, `NotOursError` and `PairError` need the user to act.
"""


class CertsError(Exception):
    """The root of the tree: catch this to catch all that the package raises on purpose."""


class NameFormatError(CertsError, ValueError):
    """A DNS name or an IP address that no certificate can hold, or no name at all."""


class LifetimeError(CertsError, ValueError):
    """A lifetime that is too short to be of use, or that ends beyond the calendar."""


class AuthorityError(CertsError):
    """A CA that cannot sign now, or whose leaves clients would refuse."""


class FolderError(CertsError):
    """The folder, or a file in it, cannot be read or written."""


class LockTimeoutError(FolderError):
    """Another process held the lock of the folder for too long."""


class MissingFileError(FolderError):
    """A file that is needed is not there."""


class UnreadableFileError(FolderError):
    """A file is there, but it does not hold the PEM that it should."""


class NotOursError(CertsError):
    """Files that the user put there would have to be overwritten, and that is never done."""


class PairError(CertsError):
    """The certificate and the key are there and no TLS server can use them."""


class PairMismatchError(PairError):
    """The key in tls.key does not belong to the certificate in tls.crt."""


class PairExpiredError(PairError):
    """The certificate in tls.crt is past its end."""


class PairNotYetValidError(PairError):
    """The certificate in tls.crt is before its begin."""
