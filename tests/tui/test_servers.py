"""Tool servers in the app: notices, questions above the prompt, and the list of `/mcp`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual.pilot import Pilot

from qcode.agent.mcp.servers import ReadyServer
from qcode.agent.mcp.session import ListedArgument, ListedPrompt, ListedResource, ServerListing
from qcode.agent.mcp.spec import ServerStatus, ServerTool
from qcode.protocol.approvals import Allow, Decision, Deny, ServerApproval, ToolApproval
from qcode.protocol.events import ApprovalRequested, Notice
from qcode.tui.panels.draft import GUARD_SECONDS
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.screens.arguments import ArgumentsForm
from qcode.tui.shared_widgets import HangingText
from tests.tui.harness import Running, drive, make_app, until_ready
from tests.tui.scripted import Gate, ScriptedConversation, UntilAnswered, call, ended

READY = ServerStatus(
    "git",
    "ready",
    "git-mcp",
    "config.toml:3",
    (ServerTool("git__log", "A \x1b[31mlog [red]x[/]"), ServerTool("git__drop", "Drops", "changed, not approved")),
    log="warming up\n[bold]ready",
)
WAITING = ServerStatus("theirs", "waiting", "sh", ".mcp.json")
QUESTION = ServerApproval(
    "k1",
    "theirs",
    'This project wants to start the tool server "theirs" (never approved).',
    "command:  sh\nargument: \x1b[8m-c [red]",
)


class Completing:
    """A connection that completes every argument."""

    async def complete(self, kind: str, name: str, argument: str, value: str, given: dict[str, str]) -> tuple[str, ...]:
        return (f"{argument}-1", f"{argument}-2")


class ScriptedServers:
    """Scripted servers that record their calls."""

    def __init__(self, *statuses: ServerStatus, asks: tuple[ServerApproval, ...] = ()) -> None:
        self._statuses = statuses
        self.asks = asks
        self.answers: list[tuple[str, Decision]] = []
        self.restarts: list[str] = []
        self.notices: tuple[Notice, ...] = ()
        self.changed: Callable[[], None] = lambda: None
        self.listing = ServerListing()

    def statuses(self) -> tuple[ServerStatus, ...]:
        return self._statuses

    def ready(self) -> dict[str, ReadyServer]:
        return {"docs": ReadyServer(self.listing, Completing())} if self.listing != ServerListing() else {}  # type: ignore[arg-type]  # the app only completes

    def approvals(self) -> tuple[ServerApproval, ...]:
        return self.asks

    def answer(self, approval_id: str, decision: Decision) -> None:
        self.answers.append((approval_id, decision))
        self.asks = tuple(ask for ask in self.asks if ask.id != approval_id)
        self.changed()

    def ask_again(self, name: str) -> None:
        if self.answers and name == "theirs":
            self.asks = (QUESTION,)

    def restart(self, server: str) -> None:
        self.restarts.append(server)

    def start(self, on_change: Callable[[], None] | None = None) -> None:
        assert on_change is not None
        self.changed = on_change

    def take_notices(self) -> tuple[Notice, ...]:
        notices, self.notices = self.notices, ()
        return notices


def panel_text(run: Running) -> str:
    return run.app.widgets.help.query_one(HangingText).plain


def test_server_approval_is_asked_once_and_answered_with_a_key() -> None:
    servers = ScriptedServers(WAITING, asks=(QUESTION,))

    async def test(run: Running) -> None:
        panel = run.app.widgets.approval
        await run.until(lambda: panel.shown_approval is not None)
        assert [option.label for option in panel.options] == ["Yes, from now on", "No, not in this session"]
        servers.changed()
        await run.pilot.pause()
        assert len(panel.open_ids) == 1
        await run.pilot.press("y")
        assert servers.answers == []  # too early to be intended
        run.clock.now += 2 * GUARD_SECONDS
        await run.pilot.press("y")
        await run.pilot.pause()
        assert servers.answers == [("k1", Allow())]
        assert panel.shown_approval is None
        assert run.app.focused is run.app.widgets.prompt
        assert run.conversation.answers == []

    drive(test, servers=servers)


def test_esc_postpones_a_server_approval_and_mcp_asks_again() -> None:
    servers = ScriptedServers(WAITING, asks=(QUESTION,))

    async def test(run: Running) -> None:
        panel = run.app.widgets.approval
        await run.until(lambda: panel.shown_approval is not None)
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert panel.shown_approval is None
        assert "theirs is waiting for approval. /mcp asks again." in run.text
        assert servers.answers == []
        await run.send("/mcp")
        await run.until(lambda: panel.shown_approval is not None)
        run.clock.now += 2 * GUARD_SECONDS
        await run.pilot.press("n")
        await run.pilot.pause()
        assert servers.answers == [("k1", Deny())]

    drive(test, servers=servers)


def test_interrupted_turn_keeps_the_server_approval_open() -> None:
    servers = ScriptedServers(WAITING, asks=(QUESTION,))
    gate = Gate()
    asked = ApprovalRequested(ToolApproval(call(call_id="c1"), "Run this command?", "ls"))
    conversation = ScriptedConversation([asked, gate, UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        panel = run.app.widgets.approval
        await run.until(lambda: panel.shown_approval is not None)
        run.app.widgets.prompt.post_message(Prompt.Submitted("go", "go"))
        await run.until(lambda: len(panel.open_ids) == 2)
        assert run.app.turns.stop()
        await run.until_idle()
        assert panel.open_ids == ("k1",)
        assert [call_id for call_id, _ in run.conversation.answers] == ["c1"]

    drive(test, conversation, servers=servers)


def test_stale_server_question_is_withdrawn_and_notices_are_shown() -> None:
    servers = ScriptedServers(WAITING, asks=(QUESTION,))

    async def test(run: Running) -> None:
        panel = run.app.widgets.approval
        await run.until(lambda: panel.shown_approval is not None)
        servers.asks = (replace(QUESTION, id="k2"),)
        servers.notices = (Notice("warning", "tool servers: git failed: [red]no"),)
        servers.changed()
        await run.until(lambda: panel.open_ids == ("k2",))
        assert "git failed: [red]no" in run.text

    drive(test, servers=servers)


def test_mcp_shows_servers_and_their_tools_and_restarts_one() -> None:
    servers = ScriptedServers(READY, WAITING)

    async def test(run: Running) -> None:
        await run.send("/mcp")
        panel = panel_text(run)
        assert "git: ready, 1 tool, 1 disabled" in panel
        assert "theirs: waiting for your approval" in panel
        await run.send("/mcp git")
        panel = panel_text(run)
        assert "A log [red]x[/]" in panel
        assert "disabled: changed, not approved" in panel
        assert "[bold]ready" in panel
        await run.send("/mcp restart git")
        assert servers.restarts == ["git"]
        await run.send("/mcp gti")
        assert "Did you mean git?" in run.text

    drive(test, servers=servers)


def test_enter_after_restart_names_a_server_before_it_restarts_one_of_several() -> None:
    servers = ScriptedServers(READY, WAITING)

    async def test(run: Running) -> None:
        await run.send("/mcp restart")
        assert run.app.widgets.prompt.text == "/mcp restart git"
        assert servers.restarts == []
        await run.pilot.press("enter")
        assert servers.restarts == ["git"]

    drive(test, servers=servers)


def test_mcp_without_servers_says_how_to_add_one() -> None:
    async def test(run: Running) -> None:
        await run.send("/mcp")
        notice = "No tool servers. Add one in a shell with qcode mcp add NAME -- PROGRAM and restart qcode"
        await run.until(lambda: notice in " ".join(run.text.split()))
        assert not run.app.widgets.help.is_open
        await run.send("/mcp restart")
        assert "Name the server: /mcp restart NAME." in run.text

    drive(test)


def test_server_approval_is_readable_at_forty_columns() -> None:
    servers = ScriptedServers(WAITING, asks=(QUESTION,))

    async def test(run: Running) -> None:
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        await run.pilot.pause()
        screen = painted(run)
        assert "This project wants to start" in screen
        assert "\\x1b[8m-c [red]" in screen
        assert "Yes, from now on" in screen

    drive(test, servers=servers, size=(40, 24))


def test_server_approval_looks_as_recorded(snap_compare: Callable[..., bool]) -> None:
    app = make_app(ScriptedConversation(), servers=ScriptedServers(WAITING, asks=(QUESTION,)))

    async def wait(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        while app.widgets.approval.shown_approval is None:
            await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, run_before=wait)
    assert app.widgets.approval.shown_approval == QUESTION


LISTING = ServerListing(
    prompts=(ListedPrompt("review", "Review [red]code", (ListedArgument("code", is_required=True),)),),
    resources=(ListedResource("memo://today"), ListedResource("memo://{name}", is_template=True)),
)


def test_prompts_of_a_server_join_the_menu_when_it_lists_them() -> None:
    servers = ScriptedServers(READY)

    async def test(run: Running) -> None:
        prompt, menu = run.app.widgets.prompt, run.app.widgets.menu
        await run.pilot.press(*"/docs")
        assert not menu.is_open
        await run.pilot.press("backspace")
        servers.listing = LISTING
        await run.pilot.press("s")
        assert [(row.label, row.hint) for row in menu.choices] == [("/docs:review", "<code>")]
        assert menu.choices[0].help == "Review [red]code (prompt of docs)"
        await run.pilot.press("tab", "enter")
        assert prompt.text == "/docs:review code="
        await run.until(lambda: [row.label for row in menu.choices] == ["code=code-1", "code=code-2"])
        assert run.conversation.prompts == []
        await run.pilot.press(*"code-2", "enter")
        await run.until(lambda: run.conversation.prompts == ["/docs:review code=code-2"])

    drive(test, servers=servers)


def painted(run: Running) -> str:
    return "\n".join(strip.text for strip in run.app.screen._compositor.render_strips())


def test_form_asks_for_several_missing_arguments() -> None:
    servers = ScriptedServers(READY)
    needed = (ListedArgument("code", "The [red]file", is_required=True), ListedArgument("goal", is_required=True))
    listed = ListedPrompt("review", "Review", (*needed, ListedArgument("style")))
    servers.listing = ServerListing(prompts=(listed,))

    async def test(run: Running) -> None:
        await run.pilot.press(*"/docs:review style=long", "enter")
        await run.until(lambda: isinstance(run.app.screen, ArgumentsForm))
        await run.pilot.pause()
        assert "code  The [red]file" in painted(run)
        await run.pilot.press(*"it's.py", "enter", "enter", "enter")  # the second one stays empty
        assert "This argument is required." in painted(run)
        await run.pilot.press(*"find bugs", "enter", "enter")
        sent = ["/docs:review code='it'\"'\"'s.py' goal='find bugs' style=long"]
        await run.until(lambda: run.conversation.prompts == sent)
        await run.pilot.press(*"/docs:review", "enter")
        await run.until(lambda: isinstance(run.app.screen, ArgumentsForm))
        await run.pilot.press("escape")
        await run.until(lambda: run.app.widgets.prompt.text == "/docs:review")

    drive(test, servers=servers)


def test_resources_of_a_server_are_completed_in_a_mention() -> None:
    servers = ScriptedServers(READY)
    servers.listing = LISTING

    async def test(run: Running) -> None:
        prompt, menu = run.app.widgets.prompt, run.app.widgets.menu
        await run.pilot.press(*"see @do", "tab")
        assert prompt.text == "see @docs:"
        assert [row.label for row in menu.choices][:2] == ["docs:memo://today", "docs:memo://"]
        await run.pilot.press("down", "tab")
        assert prompt.text == "see @docs:memo://"
        await run.until(lambda: "docs:memo://name-2" in [row.label for row in menu.choices])

    drive(test, servers=servers)
