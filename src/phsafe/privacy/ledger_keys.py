"""The keys of a ledger: the private Ed25519 key signs its entries, and anyone with the public key can verify them.

Each is a file of 64 hexadecimal digits next to the ledger: FILE.key, for those who may charge, and FILE.pub, for all.
"""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from phsafe.privacy.ledger_file import (
    LedgerError,
    create_atomically,
    exists,
    keep_one_name,
    key_path,
    public_path,
    write,
)

KEY_BYTES = 32
_PRIVATE, _PUBLIC = "the ledger's key", "the ledger's public key"


class Signer:
    """A ledger's private key."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key = self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature of a message."""
        return self._key.sign(message).hex()

    def derive(self, purpose: bytes) -> bytes:
        """A secret for another purpose, from which the private key can't be computed (HKDF, RFC 5869)."""
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"phsafe ledger " + purpose).derive(self._secret)


def is_signed(public_key: str, signature: object, message: bytes) -> bool:
    """Whether the holder of the private key has signed a message."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(str(signature)), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_signer(path: Path) -> Signer:
    """Load the private key of a ledger, which the world can't read."""
    return Signer(_load(key_path(path), _PRIVATE))


def load_public_key(file: Path) -> str:
    """Load a public key from its file."""
    return _load(file, _PUBLIC).hex()


def load_or_create(path: Path) -> Signer:
    """Load the keys of a ledger that is being created; make what is missing."""
    if not exists(key_path(path)):
        secret = Ed25519PrivateKey.generate().private_bytes_raw().hex()
        _create(key_path(path), secret, 0o600)
    signer, public = load_signer(path), public_path(path)
    if not exists(public):
        _create(public, signer.public_key, 0o644)
    if load_public_key(public) != signer.public_key:
        raise LedgerError(f"{public}: expected the public key of {key_path(path)}, got another key; remove this file")
    return signer


def _create(file: Path, content: str, mode: int) -> None:
    try:
        create_atomically(file, lambda temporary: write(temporary, content), mode)
    except LedgerError:
        if not exists(file):  # else another process has made it
            raise


def _load(file: Path, what: str) -> bytes:
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{file}: expected a regular file with {what}, got something else")
        keep_one_name(file, status)
        if what == _PRIVATE and status.st_mode & 0o007:
            raise LedgerError(
                f"{file}: every user of this machine can read or change the key; run chmod 600 on it, "
                "or chmod 640 if a group shares the ledger"
            )
        key = bytes.fromhex(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise LedgerError(f"{file}: {what} is missing; restore it next to the ledger") from None
    except OSError as error:
        raise LedgerError(f"{file}: can't read {what}: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{file}: expected {what}, got something else")
    return key
