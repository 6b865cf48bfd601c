"""Who drives a machine: a lease that lies on the machine itself, so that two controllers never share it.

It outlives reboots and controllers. Its time is the machine's own clock, because no two clocks agree: remaining
seconds are computed there. It needs nothing but a shell and a filesystem: a claim is a new generation of the record,
made by a hard link, which fails if somebody else made that generation first.
"""

import getpass
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Literal

from bisector.lab.root import Root
from bisector.model.errors import MachineError

# $1 folder, $2 what to do, $3 our token, $4 seconds, $5 holder, $6 session. Answers "word token remaining-seconds" and
# the record's other two lines. The highest generation counts; the token "-" is nobody's.
# Renewing and taking over meet like this: the holder renews its generation and then looks for a newer one; the heir
# makes a newer one and then looks whether the old one was renewed. One of them sees the other, and steps back.
_STEP = """
set -u
umask 022
mkdir -p "$1" && cd "$1" || exit 1
now=$(date +%s)
part=part.$3.$$
trap 'rm -f "$part"' EXIT
find_last() {
  last=0
  for f in lease.*; do
    f=${f#lease.}
    case $f in *[!0-9]*) ;; *) [ "$f" -gt "$last" ] && last=$f;; esac
  done
}
read_one() {
  token=- until=0 holder= session=
  [ -e "lease.$1" ] && { read -r token until; read -r holder; read -r session; } <"lease.$1"
  case $until in ''|*[!0-9]*) until=0;; esac
  token=${token:--} left=$((until - now))
}
tell() { echo "$1 $token $left"; echo "$holder"; echo "$session"; exit 0; }
write() { printf '%s %s\n%s\n%s\n' "$@" >"$part" || exit 1; sync "$part" 2>/dev/null || :; }
held() { [ "$token" != - ] && [ "$left" -gt 0 ]; }
find_last; read_one "$last"
[ "$2" = take ] && [ "$token" = "$3" ] && set -- "$1" renew "$3" "$4" "$5" "$6"
case $2 in
take)
  held && tell held
  next=$((last + 1))
  write "$3" "$((now + $4))" "$5" "$6"
  ln "$part" "lease.$next" 2>/dev/null || { find_last; read_one "$last"; tell held; }
  read_one "$last"
  held && { rm -f "lease.$next"; tell held; }
  rm -f "lease.$last"
  if [ "$token" = - ]; then tell taken; else tell expired; fi;;
renew)
  [ "$token" = "$3" ] || tell lost
  write "$3" "$((now + $4))" "$5" "$6"
  mv -f "$part" "lease.$last" || exit 1
  mine=$last; find_last
  [ "$mine" = "$last" ] || { read_one "$last"; tell lost; }
  tell taken;;
drop)
  [ "$token" = "$3" ] || tell lost
  write - 0 "$holder" "$session"
  mv -f "$part" "lease.$last" || exit 1
  tell dropped;;
force)
  [ "$token" = - ] && tell free
  write - 0 "$holder" "$session"
  ln "$part" "lease.$((last + 1))" || exit 1
  rm -f "lease.$last"
  tell dropped;;
look)
  [ "$token" = - ] && tell free
  if held; then tell held; else tell expired; fi;;
esac
"""

_Step = Literal["take", "renew", "drop", "force", "look"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What the machine says of its lease: held, expired or free, by whom, and for how many seconds still."""

    state: str
    holder: str
    session: str
    remaining_s: int

    def __str__(self) -> str:
        whose = f"{self.holder}, session {self.session}"
        if self.state == "held":
            return f"held by {whose}, for {-(-self.remaining_s // 60)} more minutes unless it is renewed"
        return f"{self.state}, last held by {whose}" if self.holder else "free"


class LeaseError(MachineError):
    """Somebody else drives this machine: it must not be touched."""


class Lease:
    """One controller's claim on one machine. `token` identifies it, also after the controller was restarted."""

    def __init__(self, root: Root, folder: str, *, token: str, holder: str, session: str, length_s: float) -> None:
        self._root = root
        self._folder = folder
        self._token = token
        self._holder, self._session = _one_line(holder), _one_line(session)
        self._length_s = max(1, round(length_s))

    def take(self) -> Holding | None:
        """Take the machine; whose dead lease it was, if it was one. Raises LeaseError when somebody holds it."""
        word, holding = self._step("take")
        if word == "held":
            raise LeaseError(
                f"{self._root.name} is {holding}",
                resolution=f"Wait, take another machine, or: bisector lab release {self._root.name} --force",
            )
        return holding if word == "expired" else None

    def renew(self) -> None:
        """Say that we live. Raises LeaseError if the lease is not ours any more: then nothing may be touched."""
        word, holding = self._step("renew")
        if word == "lost":
            now = f"it is {holding}" if holding.holder else "it was released by force"
            raise LeaseError(
                f"{self._root.name}: the lease of session {self._session} was lost: {now}",
                resolution="Agree with whoever took the machine, then resume: nothing was counted.",
            )

    def drop(self) -> None:
        """Give the machine back. Harmless when it is not ours. Raises MachineError if the machine is lost."""
        self._step("drop")

    def _step(self, what: _Step) -> tuple[str, Holding]:
        return _step(self._root, self._folder, what, self._token, self._length_s, self._holder, self._session)


def new_token() -> str:
    """A name for a controller's claims that nobody else has."""
    return secrets.token_hex(8)


def this_controller() -> str:
    """Who we are, for whoever finds a machine leased: the user and this computer."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def look(root: Root, folder: str) -> Holding:
    """Who holds the machine. Changes nothing. Raises MachineError."""
    return _step(root, folder, "look")[1]


def force_release(root: Root, folder: str) -> Holding:
    """Break whatever lease there is, and say whose it was. Raises MachineError."""
    return _step(root, folder, "force")[1]


def _step(
    root: Root, folder: str, what: _Step, token: str = "", length_s: int = 0, holder: str = "", session: str = ""
) -> tuple[str, Holding]:
    said = root.script(_STEP, folder, what, token, str(length_s), holder, session).splitlines()
    try:
        word, owner, left = said[0].split()
        whose = Holding(
            state="held" if word in ("held", "lost", "dropped") and int(left) > 0 else "expired",
            holder=said[1],
            session=said[2],
            remaining_s=max(0, int(left)),
        )
    except (IndexError, ValueError):
        raise MachineError(f"{root.name}: the lease in {folder} cannot be read", details="\n".join(said)) from None
    if owner == "-":
        whose = Holding(state="free", holder="", session="", remaining_s=0)
    return word, whose


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "unknown"
