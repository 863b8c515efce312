"""The code interpreter's SDK: code, contexts, results."""

import datetime
import threading
import time

import pytest
from conftest import decoded, until
from e2b import InvalidArgumentException, TimeoutException
from e2b_code_interpreter import Sandbox


def test_the_last_value_is_the_result(code):
    execution = code.run_code("x = 40\nx + 2")
    assert (execution.text, execution.error) == ("42", None)
    (result,) = execution.results
    assert result.is_main_result is True
    assert execution.execution_count >= 1


def test_a_string_is_shown_without_its_quotes(code):
    assert code.run_code("'it is'").text == "it is"
    assert code.run_code("'''a\\nb'''").text == "a\\nb"


def test_without_a_value_there_is_no_result(code):
    execution = code.run_code("y = 1")
    assert (execution.results, execution.text) == ([], None)


def test_variables_stay(code):
    code.run_code("kept = [1]")
    code.run_code("import math\ndef f(): return math.pi")
    assert code.run_code("kept.append(2); kept").text == "[1, 2]"
    assert code.run_code("round(f(), 2)").text == "3.14"


def test_executions_are_counted(code):
    first = code.run_code("1").execution_count
    assert code.run_code("1").execution_count == first + 1


def test_what_is_printed_is_in_the_logs(code):
    execution = code.run_code(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('more')"
    )
    assert "".join(execution.logs.stdout) == "out\nmore\n"
    assert "".join(execution.logs.stderr) == "err\n"


def test_an_exception_is_the_error(code):
    execution = code.run_code("print('before')\ndef f():\n    1 / 0\nf()")
    error = execution.error
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert "1 / 0" in error.traceback and "Traceback" in error.traceback
    assert "".join(execution.logs.stdout) == "before\n"
    assert code.run_code("6 * 7").text == "42"


@pytest.mark.parametrize(
    ("text", "name"),
    [("if:", "SyntaxError"), ("raise SystemExit(3)", "SystemExit"), ("no_such_name", "NameError"),
     ("raise KeyboardInterrupt", "KeyboardInterrupt")],
)
def test_errors_of_every_kind(code, text, name):
    assert code.run_code(text).error.name == name
    assert code.run_code("1 + 1").text == "2"


def test_callbacks_come_while_it_runs(code):
    out, err, results, errors, times = [], [], [], [], []

    def on_stdout(message):
        out.append(message)
        times.append(time.monotonic())

    execution = code.run_code(
        "import sys, time\n"
        "for n in range(3):\n    print(n, flush=True)\n    time.sleep(0.3)\n"
        "print('e', file=sys.stderr)\nfrom IPython.display import display\ndisplay(7)\n1 / 0"
        if has_ipython(code)
        else "import sys, time\n"
        "for n in range(3):\n    print(n, flush=True)\n    time.sleep(0.3)\n"
        "print('e', file=sys.stderr)\ndisplay(7)\n1 / 0",
        on_stdout=on_stdout,
        on_stderr=err.append,
        on_result=results.append,
        on_error=errors.append,
    )
    assert "".join(it.line for it in out) == "0\n1\n2\n"
    assert [it.error for it in out] == [False] * len(out)
    assert times[-1] - times[0] > 0.3
    assert "".join(it.line for it in err) == "e\n" and err[0].error is True
    assert [it.text for it in results] == ["7"] and not results[0].is_main_result
    assert [it.name for it in errors] == ["ZeroDivisionError"] == [execution.error.name]
    stamp = out[0].timestamp
    if isinstance(stamp, str):
        said = datetime.datetime.fromisoformat(stamp).timestamp()
    else:
        said = stamp / 1e9
    assert abs(said - time.time()) < 60


def has_ipython(code):
    return code.run_code("import IPython").error is None


@pytest.mark.parametrize(
    ("kind", "method", "value"),
    [
        ("html", "_repr_html_", "<b>\u00e4\u2028</b>"),
        ("markdown", "_repr_markdown_", "# title"),
        ("svg", "_repr_svg_", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("latex", "_repr_latex_", "$\\frac{1}{2}$"),
        ("javascript", "_repr_javascript_", "alert(1)"),
        ("json", "_repr_json_", {"a": [1, {"b": None}], "\u00e4": "\u2028"}),
    ],
)
def test_results_have_every_form(code, kind, method, value):
    execution = code.run_code(
        f"class It:\n    def {method}(self): return {value!r}\n"
        "    def __repr__(self): return 'plain'\nIt()"
    )
    (result,) = execution.results
    assert result[kind] == value
    assert (result.text, result.is_main_result) == ("plain", True)
    assert set(result.formats()) == {"text", kind}


def test_images_are_results(code):
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    execution = code.run_code(
        "import base64\nclass It:\n"
        f"    def _repr_png_(self): return base64.b64decode('{png}')\n"
        "    def _repr_jpeg_(self): return b'\\xff\\xd8\\xff\\xe0 a jpeg'\n"
        "    def _repr_pdf_(self): return b'%PDF-1.4'\nIt()"
    )
    (result,) = execution.results
    assert decoded(result.png)[:8] == b"\x89PNG\r\n\x1a\n"
    assert decoded(result.jpeg)[:3] == b"\xff\xd8\xff"
    assert decoded(result.pdf) == b"%PDF-1.4"


def test_forms_of_ones_own_are_extra(code):
    execution = code.run_code(
        "class It:\n"
        "    def _repr_mimebundle_(self, **_):\n"
        "        return {'application/x-mine': 'given', 'text/plain': 'plain'}\nIt()"
    )
    (result,) = execution.results
    assert result.extra == {"application/x-mine": "given"}
    assert result.text == "plain"


def test_display_and_value_are_told_apart(code):
    execution = code.run_code("display('shown')\ndisplay(1)\n'value'")
    assert [it.is_main_result for it in execution.results] == [False, False, True]
    assert execution.text == "value"
    assert execution.results[1].text == "1"


def test_unicode_of_every_kind(code):
    text = "\u00e4\u6f22\U0001f600 a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1e \ufeff"
    execution = code.run_code(f"text = {text!r}\nprint(text)\ntext")
    assert "".join(execution.logs.stdout) == text + "\n"
    # Of a string the result is its representation.
    assert execution.text == repr(text)[1:-1]
    execution = code.run_code("raise ValueError(text)")
    assert execution.error.value == text
    shown = f"class It:\n    def __repr__(self): return text\nIt()  # {text.splitlines()[0]}"
    assert code.run_code(shown).text == text


def test_lone_surrogates_break_nothing(code):
    execution = code.run_code("print('a\\ud800b')\n'c\\udfffd'")
    assert code.run_code("1").text == "1"
    assert execution.error is None or execution.error.name == "UnicodeEncodeError"


def test_big_output_comes(code):
    execution = code.run_code("print('x' * 500_000)\n'y' * 200_000")
    assert len("".join(execution.logs.stdout)) == 500_001
    assert len(execution.text) == 200_000
    assert code.run_code("1").text == "1"


def test_many_lines_come_in_order(code):
    execution = code.run_code("for n in range(20_000): print(n)")
    lines = "".join(execution.logs.stdout).splitlines()
    assert lines == [str(n) for n in range(20_000)]


def test_variables_of_the_environment_are_set_for_the_run_alone(code):
    line = "import os\nos.environ.get('ONCE')"
    assert code.run_code(line, envs={"ONCE": "a b"}).text == "a b"
    assert code.run_code(line).text in (None, "None")


def test_a_timeout_raises_and_interrupts(code):
    code.run_code("kept = 'kept'")
    started = time.monotonic()
    with pytest.raises(TimeoutException):
        code.run_code("import time\nfor _ in range(600): time.sleep(0.1)", timeout=1)
    assert time.monotonic() - started < 5
    # The code was interrupted, and its variables are there.
    execution = code.run_code("kept", timeout=20)
    assert execution.text == "kept"


def test_code_that_prints_nothing_for_long_is_waited_for(code):
    assert code.run_code("import time; time.sleep(7); 'slept'", timeout=30).text == "slept"


def test_contexts_are_apart(code):
    one, two = code.create_code_context(), code.create_code_context()
    assert one.id != two.id and one.language == "python"
    code.run_code("where = 'one'", context=one)
    code.run_code("where = 'two'", context=two)
    assert code.run_code("where", context=one).text == "one"
    assert code.run_code("where", context=two).text == "two"
    assert code.run_code("where").error.name == "NameError"
    listed = {it.id: it.language for it in code.list_code_contexts()}
    assert listed[one.id] == listed[two.id] == "python"
    code.remove_code_context(one)
    assert one.id not in [it.id for it in code.list_code_contexts()]
    code.remove_code_context(two.id)


def test_a_restarted_context_has_forgotten(code):
    context = code.create_code_context()
    code.run_code("gone = 1", context=context)
    code.restart_code_context(context)
    assert code.run_code("gone", context=context).error.name == "NameError"
    code.remove_code_context(context)


def test_a_context_has_a_folder(code):
    code.commands.run("mkdir -p '/tmp/of the context'")
    context = code.create_code_context(cwd="/tmp/of the context")
    assert context.cwd == "/tmp/of the context"
    assert code.run_code("import os; os.getcwd()", context=context).text == "/tmp/of the context"
    code.remove_code_context(context)


def test_context_and_language_exclude_each_other(code):
    context = code.create_code_context()
    with pytest.raises(InvalidArgumentException):
        code.run_code("1", context=context, language="python")
    code.remove_code_context(context)


def test_files_are_shared_with_commands(code):
    code.run_code("open('by-code', 'w').write('x' * 3)")
    assert code.commands.run("cat by-code").stdout == "xxx"
    code.files.write("by-file", "y")
    assert code.run_code("open('by-file').read()").text == "y"


def test_two_contexts_run_at_once(code):
    contexts = [code.create_code_context() for _ in range(2)]
    said = {}

    def run(n):
        said[n] = code.run_code(f"import time; time.sleep(1); {n}", context=contexts[n]).text

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {0: "0", 1: "1"}
    assert time.monotonic() - started < 1.9
    for context in contexts:
        code.remove_code_context(context)


def test_one_context_runs_one_after_the_other(code):
    said = []
    threads = [
        threading.Thread(target=lambda n=n: said.append(code.run_code(f"import time; time.sleep(0.1); {n}").text))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["0", "1", "2", "3"]


def test_a_pause_keeps_variables():
    sandbox = Sandbox.create(timeout=100)
    try:
        sandbox.run_code("kept = 'through the pause'")
        sandbox.pause()
        again = Sandbox.connect(sandbox.sandbox_id, timeout=100)
        assert again.run_code("kept").text == "through the pause"
    finally:
        sandbox.kill()


def test_a_kill_ends_the_run():
    sandbox = Sandbox.create(timeout=100)
    raised = []

    def run():
        try:
            sandbox.run_code("import time; time.sleep(67)")
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1)
    sandbox.kill()
    thread.join(15)
    assert not thread.is_alive()
    assert isinstance(raised[0], TimeoutException), repr(raised)


def test_an_interpreter_that_ends_is_said_and_replaced(code):
    code.run_code("gone = 1")
    execution = code.run_code("import os; os._exit(3)")
    assert execution.error is not None
    assert until("it runs again", lambda: code.run_code("1 + 1").text == "2")
    assert code.run_code("gone").error.name == "NameError"


@pytest.mark.local
def test_javascript_runs(code):
    execution = code.run_code("const a = [1, 2]; console.log('hi'); a.length", language="javascript")
    assert ("".join(execution.logs.stdout), execution.text) == ("hi\n", "2")
    assert code.run_code("a[1]", language="javascript").text == "2"
    error = code.run_code("throw new TypeError('bad')", language="js").error
    assert (error.name, error.value) == ("TypeError", "bad")


@pytest.mark.local
def test_r_runs(code):
    execution = code.run_code("x <- c(1, 2, 3)\nmean(x)", language="r")
    assert "2" in (execution.text or "".join(execution.logs.stdout))
    assert code.run_code("stop('bad')", language="r").error is not None


def test_bash_runs(code):
    assert "".join(code.run_code("a=5; echo $((a * 2))", language="bash").logs.stdout) == "10\n"
    assert "".join(code.run_code("echo $a", language="bash").logs.stdout) == "5\n"


def test_contexts_of_other_languages(code):
    context = code.create_code_context(language="bash")
    assert context.language == "bash"
    code.run_code("inside=yes", context=context)
    assert "".join(code.run_code("echo $inside", context=context).logs.stdout) == "yes\n"
    code.remove_code_context(context)


def test_a_language_that_nobody_has_is_refused(code):
    from e2b import SandboxException

    with pytest.raises(SandboxException) as raised:
        code.run_code("1", language="no-such-language")
    assert "no-such-language" in str(raised.value)
    with pytest.raises(SandboxException):
        code.create_code_context(language="no-such-language")
