"""Files of the synchronous SDK."""

import io
import os
import time
import urllib.parse

import httpx
import pytest
from conftest import until
from e2b import FileNotFoundException, FileType, InvalidArgumentException, SandboxException
from e2b.exceptions import AuthenticationException, NotFoundException
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType

NAMES = ["plain.txt", "with space.txt", "\u00e4\u6f22\U0001f600.txt", "a+b&c=d%20.txt", "q'\"uote"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_written_and_read(sbx, name):
    path = f"names/{name}"
    written = sbx.files.write(path, "h\u00e9llo\u2028")
    home = sbx.commands.run("pwd").stdout.strip()
    assert (written.name, written.path) == (name, f"{home}/{path}")
    assert written.type == FileType.FILE
    assert sbx.files.read(path) == "h\u00e9llo\u2028"
    assert sbx.files.read(written.path) == "h\u00e9llo\u2028"
    assert name in [entry.name for entry in sbx.files.list("names")]


def test_a_file_is_read_as_bytes_and_as_a_stream(sbx):
    data = bytes(range(256)) * 20_000
    sbx.files.write("bytes.bin", data)
    read = sbx.files.read("bytes.bin", format="bytes")
    assert bytes(read) == data
    assert b"".join(sbx.files.read("bytes.bin", format="stream")) == data


@pytest.mark.parametrize("octets", [None, True, False])
@pytest.mark.parametrize("kind", ["str", "bytes", "file", "empty"])
def test_data_of_every_kind_is_written(sbx, kind, octets):
    data = {"str": "text", "bytes": b"text", "file": io.BytesIO(b"text"), "empty": b""}[kind]
    path = f"kinds/{kind}-{octets}"
    sbx.files.write(path, data, use_octet_stream=octets)
    assert sbx.files.read(path) == ("" if kind == "empty" else "text")


def test_gzip_goes_both_ways(sbx):
    data = "compresses well " * 10_000
    sbx.files.write("zipped.txt", data, gzip=True)
    assert sbx.commands.run("wc -c < zipped.txt").stdout.strip() == str(len(data))
    assert sbx.files.read("zipped.txt", gzip=True) == data


def test_writing_overwrites_and_makes_folders(sbx):
    sbx.files.write("new/deep/er/file", "a longer text")
    sbx.files.write("new/deep/er/file", "short")
    assert sbx.files.read("new/deep/er/file") == "short"


def test_a_program_sees_what_was_written_and_the_other_way_round(sbx):
    sbx.files.write("/tmp/in.txt", "in")
    assert sbx.commands.run("cat /tmp/in.txt").stdout == "in"
    sbx.commands.run("printf out > /tmp/out.txt")
    assert sbx.files.read("/tmp/out.txt") == "out"


@pytest.mark.parametrize("octets", [None, True, False])
def test_many_files_are_written_at_once(sbx, octets):
    folder = f"batch-{octets}"
    files = [{"path": f"{folder}/{n}/\u00e4 {n}.txt", "data": f"{n}"} for n in range(30)]
    written = sbx.files.write_files(files, use_octet_stream=octets)
    assert [it.name for it in written] == [f"\u00e4 {n}.txt" for n in range(30)]
    assert sbx.files.read(f"{folder}/29/\u00e4 29.txt") == "29"
    assert sbx.files.write_files([]) == []


def test_a_big_file_goes_up_and_down(sbx):
    data = os.urandom(1 << 20) * 40
    sbx.files.write("big.bin", data)
    said = sbx.commands.run("sha256sum < big.bin; rm -f copy.bin; cp big.bin copy.bin")
    import hashlib

    assert said.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert bytes(sbx.files.read("copy.bin", format="bytes")) == data
    sbx.files.remove("big.bin")
    sbx.files.remove("copy.bin")


def test_a_stream_may_be_given_up(sbx):
    sbx.commands.run("head -c 30000000 /dev/zero > given-up.bin")
    stream = sbx.files.read("given-up.bin", format="stream")
    next(iter(stream))
    stream.close()
    assert sbx.commands.run("echo on").stdout == "on\n"
    sbx.files.remove("given-up.bin")


def test_a_folder_is_listed_to_a_depth(sbx):
    sbx.commands.run("mkdir -p tree/a/b/c && touch tree/1 tree/a/2 tree/a/b/3 tree/a/b/c/4")
    names = lambda depth: sorted(it.name for it in sbx.files.list("tree", depth=depth))
    assert names(1) == ["1", "a"]
    assert names(2) == ["1", "2", "a", "b"]
    assert names(10) == ["1", "2", "3", "4", "a", "b", "c"]
    with pytest.raises(InvalidArgumentException):
        sbx.files.list("tree", depth=0)


def test_an_entry_says_all_about_itself(sbx):
    sbx.commands.run("printf 12345 > entry; chmod 640 entry; ln -sfn entry link; mkdir -p folder")
    before = time.time()
    info = sbx.files.get_info("entry")
    user = sbx.commands.run("id -un 2>/dev/null || id -u").stdout.strip()
    assert (info.name, info.type, info.size, info.mode) == ("entry", FileType.FILE, 5, 0o640)
    assert info.permissions == "-rw-r-----" and info.owner in (user, "user")
    assert abs(info.modified_time.timestamp() - before) < 60
    assert info.symlink_target is None
    assert sbx.files.get_info("folder").type == FileType.DIR
    link = sbx.files.get_info("link")
    assert link.symlink_target == info.path
    # As E2B has it, the type is that of what the link leads to.
    assert link.type == FileType.FILE
    (listed,) = [it for it in sbx.files.list(".") if it.name == "entry"]
    assert (listed.size, listed.path) == (5, info.path)


def test_exists(sbx):
    sbx.files.write("there", "x")
    assert sbx.files.exists("there") is True
    assert sbx.files.exists(".") is True
    assert sbx.files.exists("not-there") is False


def test_a_folder_is_made_once(sbx):
    assert sbx.files.make_dir("made/deep") is True
    assert sbx.files.make_dir("made/deep") is False
    assert sbx.files.get_info("made/deep").type == FileType.DIR


def test_a_file_is_renamed_over_another(sbx):
    sbx.files.write("old-name", "old")
    sbx.files.write("new-name", "replaced")
    entry = sbx.files.rename("old-name", "new-name")
    assert entry.name == "new-name"
    assert sbx.files.read("new-name") == "old"
    assert sbx.files.exists("old-name") is False
    sbx.commands.run("mkdir -p old-folder && touch old-folder/in")
    sbx.files.rename("old-folder", "new-folder")
    assert sbx.files.exists("new-folder/in")


def test_files_and_folders_are_removed(sbx):
    sbx.commands.run("mkdir -p gone/deep && touch gone/deep/file file-gone")
    sbx.files.remove("gone")
    sbx.files.remove("file-gone")
    assert not sbx.files.exists("gone")
    assert not sbx.files.exists("file-gone")


def test_what_is_not_there_is_not_found(sbx):
    calls = [
        lambda: sbx.files.read("not/there"),
        lambda: sbx.files.read("not/there", format="bytes"),
        lambda: list(sbx.files.read("not/there", format="stream")),
        lambda: sbx.files.list("not/there"),
        lambda: sbx.files.get_info("not/there"),
        lambda: sbx.files.rename("not/there", "there"),
        lambda: sbx.files.watch_dir("not/there"),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundException):
            call()
    # The old name of the class is its parent.
    assert issubclass(FileNotFoundException, NotFoundException)


def test_a_folder_is_no_file_and_a_file_no_folder(sbx):
    sbx.commands.run("mkdir -p a-folder; touch a-file")
    for call in [
        lambda: sbx.files.read("a-folder"),
        lambda: sbx.files.write("a-folder", "x"),
        lambda: sbx.files.write("a-file/below", "x"),
        lambda: sbx.files.list("a-file"),
        lambda: sbx.files.make_dir("a-file"),
        lambda: sbx.files.watch_dir("a-file"),
    ]:
        with pytest.raises((InvalidArgumentException, SandboxException)) as raised:
            call()
        assert type(raised.value) is InvalidArgumentException, raised.value


def test_a_path_that_nobody_can_have_is_an_error_of_its_own(sbx):
    for path in ["x" * 300, "a/" * 3000, "nul\0byte"]:
        with pytest.raises(SandboxException):
            sbx.files.write(path, "x")
        with pytest.raises(SandboxException):
            sbx.files.get_info(path)


def test_what_may_not_be_read_is_refused(sbx):
    sbx.commands.run("printf x > secret; chmod 000 secret")
    for path in ["secret", "/proc/1/mem"]:
        with pytest.raises(SandboxException):
            sbx.files.read(path)
    with pytest.raises(SandboxException):
        sbx.files.write("/usr/bin/new", "x")


def test_a_fifo_holds_nobody_up(sbx):
    sbx.commands.run("mkfifo -m 600 fifo || true")
    started = time.monotonic()
    with pytest.raises(SandboxException):
        sbx.files.read("fifo")
    assert time.monotonic() - started < 5
    assert "fifo" not in [it.name for it in sbx.files.list(".") if it.type == FileType.FILE]


def test_metadata_is_kept_with_the_file(sbx):
    written = sbx.files.write("noted", "x", metadata={"author": "a b", "version": "1"})
    if written.metadata is None:
        # Where the file system has no extended attributes nothing is kept, and nothing is said.
        probe = sbx.commands.run(
            "python3 -c 'import os; os.setxattr(\"noted\", \"user.e2b.k\", b\"v\")' 2>&1 || true"
        )
        assert "OSError" in probe.stdout
        return
    assert written.metadata == {"author": "a b", "version": "1"}
    assert sbx.files.get_info("noted").metadata == {"author": "a b", "version": "1"}
    sbx.files.write("noted", "y", metadata={"version": "2"})
    assert sbx.files.get_info("noted").metadata == {"version": "2"}


def watched(handle, wanted):
    """The events until `wanted` are among them."""
    seen = []

    def look():
        seen.extend(handle.get_new_events())
        return wanted <= {(it.name, it.type) for it in seen}

    until(f"there are {wanted}", look)
    return seen


def test_a_folder_is_watched(sbx):
    sbx.files.make_dir("watched")
    handle = sbx.files.watch_dir("watched")
    sbx.files.write("watched/new", "x")
    sbx.files.rename("watched/new", "watched/renamed")
    sbx.files.remove("watched/renamed")
    kind = FilesystemEventType
    watched(
        handle,
        {
            ("new", kind.CREATE),
            ("new", kind.WRITE),
            ("new", kind.RENAME),
            ("renamed", kind.CREATE),
            ("renamed", kind.REMOVE),
        },
    )
    handle.stop()
    with pytest.raises(SandboxException):
        handle.get_new_events()


def test_a_tree_is_watched_with_entries(sbx):
    sbx.files.make_dir("watched-tree/a")
    handle = sbx.files.watch_dir("watched-tree", recursive=True, include_entry=True)
    sbx.files.write("watched-tree/a/there-already", "x")
    sbx.files.make_dir("watched-tree/later")
    until(
        "the new folder is watched",
        lambda: any(it.name == "later" for it in handle.get_new_events()),
    )
    time.sleep(0.2)
    sbx.files.write("watched-tree/later/in-new", "xy")
    kind = FilesystemEventType
    seen = watched(handle, {("later/in-new", kind.CREATE), ("later/in-new", kind.WRITE)})
    entries = [it.entry for it in seen if it.name == "later/in-new" and it.entry]
    assert entries and entries[-1].path.endswith("/watched-tree/later/in-new")
    handle.stop()


def test_signed_urls_work_without_an_sdk(sbx):
    with httpx.Client(timeout=30, trust_env=False) as client:
        chooses = {"E2b-Sandbox-Id": sbx.sandbox_id, "E2b-Sandbox-Port": "49983"}
        path = "signed/\u00e4 +&.txt"
        for expires in [None, 60]:
            up = sbx.upload_url(path, use_signature_expiration=expires)
            files = {"file": ("ignored.txt", f"by url {expires}".encode())}
            sent = client.post(up, headers=chooses, files=files)
            assert sent.status_code == 200, sent.text
            assert [it["name"] for it in sent.json()] == ["\u00e4 +&.txt"]
            down = sbx.download_url(path, use_signature_expiration=expires)
            got = client.get(down, headers=chooses)
            assert (got.status_code, got.text) == (200, f"by url {expires}")
            part = client.get(down, headers={**chooses, "Range": "bytes=3-5"})
            assert (part.status_code, part.text) == (206, "url")
            named = sbx.download_url(path, user="user", use_signature_expiration=expires)
            assert client.get(named, headers=chooses).status_code == 200


def test_a_signature_is_for_one_thing_alone(sbx):
    sbx.files.write("signed-a", "a")
    sbx.files.write("signed-b", "b")
    chooses = {"E2b-Sandbox-Id": sbx.sandbox_id, "E2b-Sandbox-Port": "49983"}
    down = sbx.download_url("signed-a", use_signature_expiration=60)
    late = sbx.download_url("signed-a", use_signature_expiration=-5)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(down).query))

    def url(**changed):
        return down.split("?")[0] + "?" + urllib.parse.urlencode({**query, **changed})

    unsigned = {"path": "signed-a"}
    with httpx.Client(timeout=30, trust_env=False) as client:
        assert client.get(url(), headers=chooses).status_code == 200
        for wrong in [
            late,
            url(path="signed-b"),
            url(signature_expiration=str(int(query["signature_expiration"]) + 1)),
            url(signature="v1_" + "A" * 43),
            url(signature=""),
            url(username="user"),
            down.split("?")[0] + "?" + urllib.parse.urlencode(unsigned),
        ]:
            refused = client.get(wrong, headers=chooses)
            assert refused.status_code == 401, (wrong, refused.text)
            assert refused.json()["code"] == 401
        files = {"file": ("x", b"x")}
        # What is signed for reading does not write.
        assert client.post(url(), headers=chooses, files=files).status_code == 401


@pytest.mark.parametrize("user", ["root", "nobody-of-that-name"])
def test_files_of_other_users_are_refused(sbx, user):
    sbx.files.write("mine", "x", user="user")
    assert sbx.files.read("mine", user="user") == "x"
    for call in [
        lambda: sbx.files.read("mine", user=user),
        lambda: sbx.files.write("mine", "y", user=user),
        lambda: sbx.files.list(".", user=user),
    ]:
        with pytest.raises(AuthenticationException):
            call()
