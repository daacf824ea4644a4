"""The scenarios of the demo model by prompt, with real tool results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qcode.agent.context.memory import init_prompt
from qcode.agent.outcomes import UNAPPROVED
from qcode.protocol.messages import Message, Text, ToolCall, user
from qcode.providers.demo.scenarios import SCENARIOS, Scenario, find_scenario
from qcode.providers.demo.scene import read_scene
from qcode.safety.verdict import PLAN_RUNS
from qcode.text.json import JsonObject, parse_object
from qcode.tools.arguments import validate_arguments
from qcode.tools.dialog import AskUser, todo_items
from tests.providers.demo.asking import TOOLS, Reply, reply_to, request, result


def _arguments(call: ToolCall) -> JsonObject:
    arguments = parse_object(call.arguments)
    assert arguments is not None
    return arguments


def _after(prompt: str, *contents: str, is_error: bool = False) -> Reply:
    """Return the reply after each content was given as the result of the next call; the last may be an error."""
    messages: list[Message] = [user(prompt)]
    for number, content in enumerate(contents):
        reply = reply_to(request(messages))
        failed = is_error and number == len(contents) - 1
        messages += [reply.message, result(reply.call, content, is_error=failed)]
    return reply_to(request(messages))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.request)
def test_prompt_in_the_table_plays_its_scenario(scenario: Scenario) -> None:
    assert find_scenario(scenario.request) is scenario
    assert scenario.title
    assert scenario.result


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("What files are here?", "A folder listing"),
        ("ls", "A folder listing"),
        ("Please show me the files in this folder", "A folder listing"),
        ("Can you read pyproject.toml for me?", "Reading a file"),
        ("what does the readme say", "Reading a file"),
        ("Fix the bug in src/app.py", "An edit"),
        ("could you run `git status`?", "A shell command"),
        ("Please execute pytest -x", "A shell command"),
        ("run test.sh", "A shell command"),
        ("run the tests please", "A test run"),
        ("Can you run all my unit tests?", "A test run"),
        ("Give me a long answer about parsers", "A reply truncated once"),
        ("write a really long story", "A reply truncated twice"),
        ("read a file that does not exist", "A failing tool"),
        ("Show me how you think", "Thinking"),
        ("Write an enormous file called big.md", "A truncated file write"),
        ("run into a 429", "A rate limit"),
        ("Can you ask me which database to use?", "A question"),
        ("show a checklist", "A to-do list"),
        ("fix the todo in app.py", "An edit"),
        ("some piped context about long answers\n\nlist the folder", "A folder listing"),
        ("list the folder\n\n# contents of an attached file\n\nx = 1", "A folder listing"),
    ],
)
def test_natural_phrases_find_their_scenario(prompt: str, title: str) -> None:
    found = find_scenario(prompt)
    assert found is not None
    assert found.title == title


@pytest.mark.parametrize("prompt", ["list the folder {}", "{} list the folder"])
def test_scene_of_a_long_prompt_keeps_only_its_ends(prompt: str) -> None:
    scene = read_scene(request([user(prompt.format("lorem ipsum " * 400_000, "dolor " * 50))]))
    assert len(scene.prompt) < 5_000
    found = find_scenario(scene.prompt)
    assert found is not None
    assert found.title == "A folder listing"


@pytest.mark.parametrize("prompt", ["hello", "What can you do?", "fix my life", "", "tell me a joke"])
def test_other_prompts_get_an_introduction_and_how_to_connect_a_model(prompt: str) -> None:
    reply = reply_to(request([user(prompt)]))
    assert "built-in demo model" in reply.text
    assert all(name in reply.text for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"))
    assert all(scenario.request in reply.text for scenario in SCENARIOS)


def test_introduction_is_not_repeated_to_a_message_it_does_not_understand() -> None:
    introduction = reply_to(request([user("hello")]))
    assert "do not understand" not in introduction.text
    again = [user("hello"), introduction.message]
    assert len(reply_to(request([*again, user("fix my life")])).text) < len(introduction.text) / 3
    assert "Prompts to try" in reply_to(request([*again, user("what can you do?")])).text


@pytest.mark.parametrize(
    "ending",
    [
        "Denied by the user.",
        "Cancelled by the user; it was not run.",
        "Cancelled by the user while it ran; it may have been partly done.",
        "Interrupted before it finished: the outcome is unknown. Check the state before you repeat it.",
    ],
)
def test_prompt_after_a_turn_that_the_user_ended_plays_its_scenario(ending: str) -> None:
    stopped = reply_to(request([user("run make")]))
    results = result(stopped.call, ending, is_error=True)
    prompt = Message("user", (*results.blocks, Text("run ls -la")))
    reply = reply_to(request([user("run make"), stopped.message, prompt]))
    assert _arguments(reply.call) == {"command": "ls -la"}
    assert "You added" not in reply.text


def test_denial_with_a_reason_is_answered_in_words() -> None:
    stopped = reply_to(request([user("run make")]))
    denied = result(stopped.call, "Denied: use ninja", is_error=True)
    reply = reply_to(request([user("run make"), stopped.message, denied]))
    assert "The `shell` call was denied" in reply.text
    assert "The reason: use ninja" in reply.text
    assert "failed" not in reply.text


def test_denial_by_the_mode_or_a_rule_is_not_called_the_users_decision() -> None:
    for reason in (f"{PLAN_RUNS}: make runs a Makefile", "this run denies everything that would ask"):
        stopped = reply_to(request([user("run make")]))
        denied = result(stopped.call, f"Denied: {reason}", is_error=True)
        reply = reply_to(request([user("run make"), stopped.message, denied]))
        assert "did not run" in reply.text
        assert "You" not in reply.text


def test_compaction_gets_a_summary_that_is_shorter_than_the_introduction() -> None:
    conversation = f"User: hello\nAssistant: {reply_to(request([user('hello')])).text}\nUser: write a huge file"
    asked = user(f"<conversation>\n{conversation}\n</conversation>\n\nSummarize this conversation.")
    reply = reply_to(request([asked], tools=()))
    assert "- hello\n- write a huge file" in reply.text
    assert len(reply.text) < 200


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        ("list the folder", "glob", {"pattern": "*"}),
        ("read it, the file", "read", {"path": "README.md"}),
        ("show me `src/my-app/main.py`", "read", {"path": "src/my-app/main.py"}),
        ("add a docstring to tools/hello.py please", "read", {"path": "tools/hello.py"}),
        ("replace `a.b` with `c.d` in notes.txt", "read", {"path": "notes.txt"}),
        ("run ls -la src", "shell", {"command": "ls -la src"}),
        ("run ls -la .", "shell", {"command": "ls -la ."}),
        ("Run ls!", "shell", {"command": "ls"}),
        ("Please run `git status`.", "shell", {"command": "git status"}),
        ("read a missing file", "read", {"path": "no-such-file.txt"}),
    ],
)
def test_first_call_matches_the_request(prompt: str, name: str, arguments: JsonObject) -> None:
    call = reply_to(request([user(prompt)])).call
    assert (call.name, _arguments(call)) == (name, arguments)


def test_answer_to_the_question_is_repeated() -> None:
    asked = _after("ask me a question").call
    assert asked.name == "ask_person"
    assert len(validate_arguments(AskUser.spec, _arguments(asked)).objects("choices")) == 3
    assert "SQLite" in _after("ask me a question", "SQLite").text
    assert "no answer" in _after("ask me a question", "No answer was given.", is_error=True).text


def test_question_with_several_answers_is_asked() -> None:
    asked = _after("ask me to choose several").call
    assert validate_arguments(AskUser.spec, _arguments(asked)).flag("multi_select")
    assert "Lint, Tests" in _after("ask me to choose several", "Lint, Tests").text


def test_todo_list_is_sent_before_each_task_and_after_the_last() -> None:
    results: list[str] = []
    states = []
    while (reply := _after("keep a to-do list", *results)).has_calls:
        if reply.call.name == "todo":
            states.append([item.state for item in todo_items(_arguments(reply.call))])
        results.append("a.py")
    assert states == [
        ["in_progress", "pending", "pending"],
        ["done", "in_progress", "pending"],
        ["done", "done", "in_progress"],
        ["done", "done", "done"],
    ]
    assert len(results) == 7
    assert reply.text == "All tasks of the list are done.\n"


def test_docstring_is_added_to_the_file_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "hello.py"
    file.write_text("def greet(name):\n    return f'hello {name}'\n")
    read = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(file.read_text().splitlines(), 1))
    reply = _after("add a docstring to hello.py", read)
    arguments = json.loads(reply.call.arguments)
    assert reply.call.name == "edit"
    assert file.read_text().count(arguments["old_text"]) == 1
    file.write_text(file.read_text().replace(arguments["old_text"], arguments["new_text"]))
    assert file.read_text() == 'def greet(name):\n    """Greet."""\n    return f\'hello {name}\'\n'
    assert "Done: I added a docstring to `greet`" in _after("add a docstring to hello.py", read, "edited").text


def test_missing_file_is_created() -> None:
    prompt = "add a docstring to hello.py"
    missing = "No such file: hello.py"
    reply = _after(prompt, missing, is_error=True)
    assert reply.call.name == "write"
    assert "def main" in str(_arguments(reply.call)["content"])
    messages = [user(prompt)]
    first = reply_to(request(messages))
    messages += [first.message, result(first.call, missing, is_error=True), reply.message, result(reply.call, "ok")]
    assert "`hello.py` is new" in reply_to(request(messages)).text


def test_empty_file_is_written() -> None:
    assert _after("add a docstring to hello.py", "(empty file)").call.name == "write"


@pytest.mark.parametrize(
    "prompt", ["list the folder", "read README.md", "run ls", "edit hello.py", "write a huge file"]
)
def test_denied_call_is_explained_and_not_tried_again(prompt: str) -> None:
    reply = _after(prompt, "The user denied this call.", is_error=True)
    assert not reply.has_calls
    assert "The user denied this call." in reply.text


def test_denied_edit_is_explained() -> None:
    reply = _after("add a docstring to a.py", "     1\tx = 1", "Denied.", is_error=True)
    assert "Denied." in reply.text


def test_file_without_anything_to_change_is_reported() -> None:
    assert "nothing to change" in _after("add a docstring to a.py", '     1\t"""Said."""').text


def test_failing_tool_is_explained() -> None:
    assert "As expected" in _after("read a missing file", "No such file", is_error=True).text
    assert "That worked" in _after("read a missing file", "     1\thello").text


def test_command_in_the_background_is_reported_without_the_note_to_the_model() -> None:
    note = "[the user moved it to the background as job 3. This is its output so far; read more with jobs (read, 3).]"
    reply = _after("run make", f"building\n{note}")
    assert reply.text == "The command continues in the background as job 3. `/jobs` shows its output.\n"


def test_results_are_summarized() -> None:
    listing = "\n".join(f"file_{number}.py" for number in range(40))
    text = _after("list the folder", listing).text
    assert "file_11.py" in text
    assert "file_12.py" not in text
    assert "28 more lines" in text
    assert "On branch main" in _after("run git status", "On branch main").text
    assert "I read 2 lines of `README.md`" in _after("read README.md", "     1\t# Title\n     2\ttext").text
    assert "I read 1 line of `README.md`" in _after("read README.md", "     1\t# Title").text


LISTING = "/work/project/\n  src/\n    a.py  12\n  AGENTS.md  30\n  Makefile  1,024\n  my notes.txt  3\n"
MAKEFILE = "     1\tall: build\n     2\t\techo\n     3\ttest:\n     4\tX := 1\n"


def test_init_describes_the_contents_of_the_folder() -> None:
    prompt = init_prompt("", "say how to release hello.py")
    assert find_scenario(prompt) is find_scenario("/init")
    assert _after(prompt).call.name == "ls"
    reply = _after(prompt, LISTING.replace("  AGENTS.md  30\n", ""), MAKEFILE)
    assert reply.call.name == "write"
    arguments = _arguments(reply.call)
    assert arguments["path"] == "AGENTS.md"
    content = str(arguments["content"])
    assert "- `make all`\n- `make test`\n" in content
    assert "- `src/`\n- `Makefile`\n- `my notes.txt`\n" in content
    assert "a.py" not in content
    assert "X" not in content


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["Cargo.toml", "src/"], "cargo test"),
        (["package.json"], "npm test"),
        (["go.mod"], "go test ./..."),
        (["pyproject.toml", "tests/"], "python -m pytest"),
        (["calc.py", "test_calc.py"], "python -m pytest"),
    ],
)
def test_tests_are_run_as_the_project_does(names: list[str], command: str) -> None:
    listing = "/work/project/\n" + "".join(f"  {name}  12\n" for name in names)
    assert _after("run the tests").call.name == "ls"
    assert _arguments(_after("run the tests", listing).call) == {"command": command}
    assert "2 passed" in _after("run the tests", listing, "2 passed").text


def test_target_of_the_makefile_runs_the_tests() -> None:
    assert _arguments(_after("run the tests", LISTING).call) == {"path": "Makefile"}
    assert _arguments(_after("run the tests", LISTING, MAKEFILE).call) == {"command": "make test"}
    assert "no tests" in _after("run the tests", LISTING, "     1\tall: build\n").text


def test_folder_without_tests_is_reported() -> None:
    assert "no tests" in _after("run the tests", "/work/project/\n  notes.txt  3\n").text


def test_denial_without_a_user_is_not_called_the_users_decision() -> None:
    stopped = reply_to(request([user("run make")]))
    denied = result(stopped.call, f"Denied: {UNAPPROVED}", is_error=True)
    reply = reply_to(request([user("run make"), stopped.message, denied]))
    assert "it needs approval, and this run is not interactive" in reply.text
    assert "You" not in reply.text


def test_init_keeps_existing_text_and_adds_missing_sections() -> None:
    prompt = init_prompt("AGENTS.md")
    reply = _after(prompt, LISTING, "     1\t# Mine\n     2\tuse tabs\n", MAKEFILE)
    arguments = _arguments(reply.call)
    assert str(arguments["content"]).startswith("# Mine\nuse tabs\n\n## Layout\n")
    done = _after(prompt, LISTING, "     1\t## Layout\n", MAKEFILE)
    assert not done.has_calls


def test_denied_agents_file_is_reported_as_denied() -> None:
    reply = _after(init_prompt(""), "/work/p/\n  a.py  1\n", "Denied by the user.", is_error=True)
    assert "You declined the `write` call" in reply.text


def test_plan_names_the_key_for_plan_mode_if_the_tool_is_not_offered() -> None:
    tools = tuple(tool for tool in TOOLS if tool.name != "exit_plan_mode")
    reply = reply_to(request([user("make a plan")], tools=tools))
    assert not reply.has_calls
    assert "switch to it with Shift+Tab" in reply.text


def test_plan_is_submitted_and_carried_out_only_after_approval() -> None:
    assert _after("make a plan").call.name == "exit_plan_mode"
    assert _after("make a plan", "The user approved the plan.").call.name == "write"
    assert not _after("make a plan", "Denied: not yet", is_error=True).has_calls
    assert "as planned" in _after("make a plan", "Approved.", "Written.").text


def test_plan_is_submitted_again_with_the_changes_that_the_user_asked_for() -> None:
    wish = "Denied: the plan is not approved and plan mode continues; change nothing. The user says: call it other.py"
    again = _after("make a plan", wish, is_error=True)
    assert again.call.name == "exit_plan_mode"
    assert "# Write `other.py`" in str(_arguments(again.call)["plan"])
    assert "Changed as you asked: call it other.py" in str(_arguments(again.call)["plan"])


def test_prompt_after_a_plan_that_was_not_approved_is_a_new_one() -> None:
    denial = "Denied: the plan is not approved and plan mode continues; change nothing. Ask what to change, or end."
    first = reply_to(request([user("make a plan")]))
    answered = result(first.call, denial, is_error=True)
    for prompt, name in (("make a plan", "exit_plan_mode"), ("run ls", "shell")):
        following = Message("user", (*answered.blocks, Text(prompt)))
        assert reply_to(request([user("make a plan"), first.message, following])).call.name == name


def test_call_that_plan_mode_denies_names_the_ways_out() -> None:
    denial = "Denied: plan mode only reads; leave it to change files or run commands"
    reply = _after("run ls", denial, is_error=True)
    assert "You said" not in reply.text
    assert "make a plan" in reply.text


@pytest.mark.parametrize("request_text", ["write a huge file", "a very long reply", "a long reply"])
def test_list_names_truncations_by_their_limits_as_the_notices_do(request_text: str) -> None:
    scenario = next(each for each in SCENARIOS if each.request == request_text)
    assert "truncated at 8,000" in scenario.result
    assert ("64,000" in scenario.result) == (request_text != "a long reply")
    assert "twice" not in scenario.result
    assert "cap" not in scenario.result.split()
