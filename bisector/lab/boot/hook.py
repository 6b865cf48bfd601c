"""One-shot boots by the user's own commands."""

from pathlib import Path

from bisector.lab.boot.method import MARK, OneShotError
from bisector.lab.command import run_here
from bisector.lab.root import Root
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage
from bisector.recipe.machines import HookBoot, SshMachine


class HookMethod:
    """Calls the recipe's commands, on this computer or on the machine; see `recipe.machines.HookBoot`."""

    def __init__(self, part: HookBoot, machine: SshMachine, root: Root) -> None:
        self._part = part
        self._machine = machine
        self._root = root

    def preflight(self) -> None:
        """As `inspect`."""
        self.inspect()

    def inspect(self) -> None:
        """Let the user's command judge, where there is one."""
        if self._part.preflight is None:
            return
        try:
            self._call("preflight", self._part.preflight, {})
        except MachineError as error:
            raise OneShotError(
                f"{self._machine.name}: the preflight command refuses one-shot boots",
                details=error.details or error.brief,
                resolution="Mend what it complains about, then: bisector lab check " + self._machine.name,
            ) from error

    def arm_probe(self, token: str) -> bool:
        """Only the user knows how the default kernel is booted."""
        del token
        return False

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Upload the image if the commands run there, then call `install`."""
        del anew
        if self._part.prune is not None:
            self._call("prune", self._part.prune, {**self._variables(image), "BISECTOR_RUNNING": running})
        if self._part.where == "machine":
            folder, _, _ = self._remote(image).rpartition("/")
            self._root.script('mkdir -p "$1"; rm -f "$1"/vmlinuz-* "$1"/modules-*', folder)
            self._root.put(Path(image.path), self._remote(image), 0o644)
            if image.modules is not None:
                self._root.put(Path(image.modules.path), self._remote_modules(image), 0o644)
        self._call("install", self._part.install, self._variables(image))

    def boot_once(self, image: KernelImage) -> None:
        """Call `boot_once`."""
        self._call("boot_once", self._part.boot_once, self._variables(image))

    def armed(self) -> str | None:
        """What `armed` prints."""
        return None if self._part.armed is None else self._call("armed", self._part.armed, {}).strip()

    def disarm(self) -> None:
        """Call `disarm`, if there is one."""
        if self._part.disarm is not None:
            self._call("disarm", self._part.disarm, {})

    def require_default(self) -> None:
        """Only the user's commands know what the default is."""

    @property
    def reboot_order(self) -> None:
        """A plain reboot."""

    @property
    def starts_from_default(self) -> bool:
        """Any kernel will do."""
        return False

    def _remote(self, image: KernelImage) -> str:
        return f"{self._machine.state_folder}/kernels/vmlinuz-{image.release}"

    def _remote_modules(self, image: KernelImage) -> str:
        return f"{self._machine.state_folder}/kernels/modules-{image.release}.tar.gz"

    def _variables(self, image: KernelImage) -> dict[str, str]:
        modules = "" if image.modules is None else str(Path(image.modules.path).absolute())
        return {
            "BISECTOR_IMAGE": self._remote(image)
            if self._part.where == "machine"
            else str(Path(image.path).absolute()),
            "BISECTOR_MODULES": self._remote_modules(image) if modules and self._part.where == "machine" else modules,
            "BISECTOR_RELEASE": image.release,
            "BISECTOR_COMMIT": image.commit,
            "BISECTOR_CMDLINE": f"{self._machine.cmdline} {MARK}={image.release}".strip(),
        }

    def _call(self, name: str, command: str, variables: dict[str, str]) -> str:
        what = f"{self._machine.name}: the command boot.{name}"
        variables = {"BISECTOR_MACHINE": self._machine.name, "BISECTOR_HOST": self._machine.host, **variables}
        if self._part.where == "here":
            return run_here(what, command, variables=variables, timeout_s=self._part.timeout_s)
        given = (f"{key}={value}" for key, value in variables.items())
        result = self._root.run(("env", *given, "sh", "-c", command), timeout_s=self._part.timeout_s)
        if result.exit_code != 0:
            said = (result.stderr or result.stdout).strip()
            raise MachineError(f"{what} ended with {result.exit_code}", details=said[-2000:])
        return result.stdout
