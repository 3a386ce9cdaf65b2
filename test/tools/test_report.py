# ===- test_report.py - The page that shows a plan ------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Pages are whole, say what the certificate says, and draw each element where
the certificate has it; a browser shows them."""

import itertools
import json
import re
import shutil
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support import CONFIGS, needs_tools, tool, write_json

pytestmark = needs_tools

# Cut key/value groups, cut heads, sections, interleaves and transposed stacks,
# experts over ep and etp, copies, another trainer or an engine as the receiver.
MODELS = {
    "kv-groups-cut": ("qwen3", {"tp": 4}, None),
    "heads-cut": ("qwen3", {"tp": 8, "vocab_multiple": 4}, None),
    "many-ways": ("gpt_oss", {"tp": 16}, None),
    "copy": ("tied", {"tp": 2, "pp": 2, "vpp": 2}, None),
    "ep-etp": ("qwen3_moe", {"tp": 2, "ep": 2, "etp": 2, "pp": 2}, None),
    "sections": ("nemotron_h", {"tp": 2}, None),
    "interleave": ("gpt_oss", {"tp": 2, "ep": 2}, None),
    "reshard": ("qwen3", {"tp": 2}, {"tp": 4, "vocab_multiple": 0}),
    "reshard-sections": ("nemotron_h", {"tp": 2}, {"pp": 1}),
    "engine": ("qwen3_moe", {"tp": 2, "ep": 2}, {
        "engine": "vllm", "tp": 4, "ep": 4}),
    "engine-slots": ("qwen3_moe", {"tp": 1, "ep": 2}, {
        "engine": "sglang", "tp": 2, "ep": 2, "redundant_experts": 2}),
    "engine-forms": ("nemotron_h", {"tp": 2}, {"engine": "vllm", "tp": 2}),
}
CONFIGS = {**CONFIGS, "tied": {**CONFIGS["qwen3"], "tie_word_embeddings": True}}
VOID = {"meta", "wbr", "br", "path", "rect"}


def model_file(folder: Path, case: str) -> Path:
    config, trainer, receiver = MODELS[case]
    model = {"config": CONFIGS[config], "trainer": trainer}
    if receiver:
        config = CONFIGS[config]
        model["config"] = {**config, "vocab_size": 252}
        model["rollout"] = {"engine": "megatron", **receiver}
    return write_json(folder / f"{case}.json", model)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, tuple[Path, dict]]:
    """The page and the certificate of every model."""
    folder = tmp_path_factory.mktemp("report")
    out = {}
    for case in MODELS:
        model, page = model_file(folder, case), folder / f"{case}.html"
        run = tool("delta-compile", model, "--emit=proof", "--report", page)
        assert run.returncode == 0, run.stderr
        out[case] = page, json.loads(run.stdout)
    return out


# --- the text ---------------------------------------------------------------


class Page(HTMLParser):
    """Checks nesting; keeps tags, the drawings, and the text of elements."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.drawings: list[dict] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        values = dict(attributes)
        self.tags.append((tag, values))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "svg" and values.get("class") == "pic":
            self.drawings.append({**values, "paths": []})
        if tag == "path" and "svg" in self.open and self.drawings:
            self.drawings[-1]["paths"].append(values)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert tag not in VOID and self.open and self.open[-1] == tag, (
            f"</{tag}> in {self.open} at {self.getpos()}"
        )
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts.append((self.open[-1], data))

    def words(self, *tags: str) -> str:
        return " ".join(text for tag, text in self.texts if tag in tags)


@pytest.mark.parametrize("case", MODELS)
def test_page_is_whole(case: str, made) -> None:
    text = made[case][0].read_text()
    page = Page(text)
    assert "http" not in text and "//" not in page.words("style")
    ids = [values["id"] for _, values in page.tags if "id" in values]
    assert len(ids) == len(set(ids))
    for tag, values in page.tags:
        assert "src" not in values and tag not in ("link", "img", "iframe")
        if "href" in values:
            assert values["href"][0] == "#" and values["href"][1:] in ids
    assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#hatch"}
    assert len(text) < 300_000


def replaced(side: dict) -> list[list]:
    """Classes of a side, without those that repeat another."""
    return [c for c in side["classes"] if c[11] == -1]


def product(values) -> int:
    result = 1
    for value in values:
        result *= value
    return result


@pytest.mark.parametrize("case", MODELS)
def test_counts_are_those_of_the_certificate(case: str, made) -> None:
    path, plan = made[case]
    page = Page(path.read_text())
    counts = {
        values["data-count"]: int(values["data-value"])
        for _, values in page.tags if "data-count" in values
    }

    def instances(c: list) -> int:
        layers = 1 if c[4] == -1 else len(plan["kinds"][c[4]])
        return layers * (c[7] if c[7] and not c[8] else 1)

    source, tensors = replaced(plan["source"]), replaced(plan["hf"])
    assert counts["classes"] == len(source)
    assert counts["tensor-classes"] == len(tensors)
    assert counts["boxes"] == len(plan["boxes"])
    assert counts["instances"] == sum(map(instances, source))
    assert counts["tensors"] == sum(map(instances, tensors))
    assert counts["elements"] == sum(
        instances(c) * product(c[1]) for c in tensors
    )
    assert counts["source-ranks"] == plan["source"]["mesh"][9]
    # A card a class, a drawing a way.
    cards = [v for _, v in page.tags if "data-class" in v]
    assert len(cards) == len(plan["source"]["classes"])
    ways = [d for d in page.drawings if d["data-side"] == "s"]
    assert len(ways) == sum(c[10] for c in source)
    names = page.words("code").replace(" ", "")
    for c in plan["source"]["classes"]:
        for name in c[0]:
            assert name in names
    text = page.words("td", "b", "p")
    for side in ("source", "destination"):
        for drop in plan.get(side, {}).get("drops", []):
            assert drop["reason"] in text
    if case == "copy":
        assert "never sent" in page.words("td", "li")


# --- the drawings -----------------------------------------------------------


def elements(offset: int, extents: list, strides: list):
    for index in itertools.product(*map(range, extents)):
        yield offset + sum(k * s for k, s in zip(index, strides))


def owners(plan: dict) -> dict:
    """(side, class, way) -> element -> (class, way of its shard)."""
    out: dict = {}
    for box in plan["boxes"]:
        loops = box[2]
        owner = (box[0], box[1])
        places = [("s", box[0], box[1], box[6], box[8])]
        tensor, *images = box[9:]
        places.append(("t", tensor[0], 0, tensor[4], tensor[5]))
        if "destination" in plan:
            places += [
                ("d", image[0], way, image[4], image[5])
                for image in images for way in range(image[1], image[2])
            ]
        for side, number, way, offset, strides in places:
            held = out.setdefault((side, number, way), {})
            for element in elements(offset, box[7][:loops], strides[:loops]):
                assert element not in held
                held[element] = owner
    return out


def axis(text: str) -> list[tuple[int, int, bool]]:
    parts = [part.split(":") for part in text.split(",")]
    return [(int(e), int(p.lstrip("!")), p[0] == "!") for e, p in parts]


def rectangles(path: str) -> list[tuple[int, ...]]:
    found = re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-\3z", path)
    assert "".join("M%s %sh%sv%sh-%sz" % (*r, r[2]) for r in found) == path
    return [tuple(map(int, r)) for r in found]


def drawn(drawing: dict) -> dict:
    """Element -> attributes of the rectangle at its place."""
    columns, left = int(drawing["data-c"]), int(drawing["data-left"])
    shapes = [
        (r, path) for path in drawing["paths"] for r in rectangles(path["d"])
    ]
    out = {}
    xs, ys = axis(drawing["data-x"]), axis(drawing["data-y"])
    bands = [[(f, t) for f, t in zip(a, a[1:]) if not f[2]] for a in (ys, xs)]
    for (y0, y1), (x0, x1) in itertools.product(*bands):
        x, y = left + (x0[1] + x1[1]) / 2, (y0[1] + y1[1]) / 2
        hits = [
            path for (rx, ry, w, h), path in shapes
            if rx <= x < rx + w and ry <= y < ry + h
        ]
        assert len(hits) <= 1, "parts overlap"
        for row in range(y0[0], y1[0]):
            for column in range(x0[0], x1[0]):
                out[row * columns + column] = hits[0] if hits else None
    return out


@pytest.mark.parametrize("case", MODELS)
def test_every_element_is_drawn_at_its_place(case: str, made) -> None:
    path, plan = made[case]
    held = owners(plan)
    page = Page(path.read_text())
    seen = stripes = 0
    for drawing in page.drawings:
        number = int(drawing["data-of"])
        side, way = drawing["data-side"], int(drawing.get("data-way", 0))
        of = held.get((side, number, way), {})
        hues = set()
        for element, shape in drawn(drawing).items():
            kind = shape["class"] if shape else None
            if element not in of:
                assert kind == "drop", (drawing, element)
            elif kind == "foreign":
                assert side != "s"
            else:
                owner = of[element]
                assert kind.split()[0] == f"h{owner[1] % 8}"
                assert shape["data-w"] == str(owner[1])
                hues.add(kind)
            seen += 1
        stripes += len(hues) > 1
    assert seen > 10_000 and stripes > 0


def test_interleave_is_striped(made) -> None:
    """Gate and up are two bands in a shard and alternate in the tensor."""
    page = Page(made["interleave"][0].read_text())
    striped = []
    for drawing in page.drawings:
        shapes = drawn(drawing)
        columns = int(drawing["data-c"])
        row = [shapes.get(k, {"class": None})["class"] for k in range(columns)]
        if row[:4] == ["h0 s0", "h0 s1"] * 2 and drawing["data-side"] == "t":
            striped.append(drawing)
    assert len(striped) == 1
    assert "transposed" in page.words("b")


# --- who sends to whom ------------------------------------------------------


def received(plan: dict) -> list[int]:
    """Elements that each receiver gets in a full sync, where none holds one
    twice, tp is as large as ep, and there is one stage."""
    mesh = plan["destination"]["mesh"]
    classes = plan["destination"]["classes"]
    ranks = mesh[9]
    assert mesh[0] == mesh[3] == ranks
    out = [0] * ranks
    for box in plan["boxes"]:
        source = plan["source"]["classes"][box[0]]
        layers = 1 if source[4] == -1 else len(plan["kinds"][source[4]])
        size = product(box[7][: box[2]]) * layers
        for image in box[10:]:
            c = classes[image[0]]
            for rank in range(ranks):
                if c[7]:
                    out[rank] += size * c[7] // ranks
                elif image[1] <= rank * c[10] // ranks < image[2]:
                    out[rank] += size
    return out


def test_matrix_has_the_bytes_of_all_messages(made) -> None:
    path, plan = made["engine"]
    page = Page(path.read_text())
    cells = [
        int(values["data-bytes"]) for _, values in page.tags
        if "data-bytes" in values
    ]
    assert len(cells) == 2 * 4, "every trainer rank sends to every receiver"
    # Two bytes of place and two of value, one in a hundred.
    whole = sum(received(plan)) * 4 / 100
    assert abs(sum(cells) - whole) <= len(cells)
    text = page.words("td", "p", "b")
    assert "a receiver gets" in text and "1 %" in text


def listed(text: str) -> dict[tuple[int, int], int]:
    """(trainer rank, receiver) -> elements, of the lines after the maps."""
    out = {}
    for rank, shares in re.findall(r"^// rank (\d+) sends (.*)$", text, re.M):
        for share in shares.split("; "):
            found = re.fullmatch(
                r"(\d+) elements to (?:each of )?([\d, -]+)", share)
            for part in found[2].split(", "):
                first, _, last = part.partition("-")
                for receiver in range(int(first), int(last or first) + 1):
                    assert (int(rank), receiver) not in out
                    out[int(rank), receiver] = int(found[1])
    return out


def test_maps_list_who_sends_what_to_whom(made, tmp_path: Path) -> None:
    _, plan = made["engine"]
    run = tool("delta-compile", model_file(tmp_path, "engine"), "--emit=maps")
    assert run.returncode == 0, run.stderr
    sends = listed(run.stdout)
    assert len(sends) == 2 * 4
    sums = [0] * 4
    for (_, receiver), elements in sends.items():
        sums[receiver] += elements
    assert sums == received(plan)
    average = sum(sums) // 4
    assert f"// a receiver gets {average} elements on average" in run.stdout


def test_slots_of_an_engine_are_listed(made) -> None:
    text = made["engine-slots"][0].read_text()
    # Ten slots on two ranks; the last two hold the first experts again.
    assert "<b>ep 0</b> 0\u20134" in text
    assert "<b>ep 1</b> 5\u20137, 0\u20131" in text


def test_forms_of_an_engine_are_told(made) -> None:
    text = made["engine-forms"][0].read_text()
    assert "\u2212exp(value)" in text
    assert "\u2212exp(value)" not in made["engine"][0].read_text()


# --- the command ------------------------------------------------------------


def test_same_bytes_for_every_stage(tmp_path: Path) -> None:
    pages = []
    for number, stage in enumerate(("maps", "proof", "cuda", "host", "so")):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = model_file(folder, "reshard")
        run = tool(
            "delta-compile", model, f"--emit={stage}", "-o", folder / "out",
            "--report", folder / "page.html",
        )
        assert run.returncode == 0, run.stderr
        assert (folder / "out").stat().st_size > 0
        pages.append((folder / "page.html").read_bytes())
    assert len(set(pages)) == 1
    assert str(tmp_path).encode() not in pages[0]


def test_checks_are_told(tmp_path: Path) -> None:
    model, page = model_file(tmp_path, "sections"), tmp_path / "page.html"
    found = {}
    for mode in ("full", "sample", "off"):
        run = tool(
            "delta-compile", model, "--emit=maps", "-o", tmp_path / "maps",
            f"--cross-check={mode}", "--report", page,
        )
        assert run.returncode == 0, run.stderr
        found[mode] = page.read_text()
    full = re.search(r"(\d+) elements of (\d+) tensors agree",
                     tool("delta-compile", model, "--emit=maps",
                          "--cross-check=full").stderr)
    told = f"{int(full[1]):,} elements of {int(full[2]):,} tensors agree"
    assert told in found["full"] and "every element: " in found["full"]
    assert "a sample: " in found["sample"]
    assert "with the interpreter: off" in found["off"]
    assert "not checked" in found["off"]


def test_page_only_after_success(tmp_path: Path) -> None:
    model, page = model_file(tmp_path, "copy"), tmp_path / "page.html"
    run = tool("delta-compile", model, "-o", tmp_path / "none" / "plan.so",
               "--report", page)
    assert run.returncode == 1 and not page.exists()
    run = tool("delta-compile", model, "--emit=maps", "--report",
               tmp_path / "none" / "page.html")
    assert run.returncode == 1
    assert "page.html': No such file or directory" in run.stderr


# --- in a browser -----------------------------------------------------------

BROWSER = next(
    filter(None, map(shutil.which,
                     ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium, chromium-browser or google-chrome"
)


def browse(folder: Path, page: str, size: str, *arguments: str) -> str:
    run = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
         "--hide-scrollbars", "--virtual-time-budget=2000",
         f"--user-data-dir={folder / 'profile'}",
         f"--window-size={size}", *arguments, page],
        capture_output=True, text=True, timeout=120, cwd=folder,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def pixels(path: Path) -> tuple[int, list[bytes]]:
    """Bytes of a pixel and the rows of a PNG of 8 bits, not interlaced."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, size = 8, b"", 0
    while at < len(data):
        (length,) = struct.unpack(">I", data[at:at + 4])
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlace = struct.unpack(
                ">IIBBBBB", body)
            assert depth == 8 and interlace == 0
            size = {2: 3, 6: 4}[color]
        if kind == b"IDAT":
            packed += body
        at += length + 12
    raw, rows, last = zlib.decompress(packed), [], bytes(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        row = bytearray(raw[start + 1:start + 1 + width * size])
        unfilter(raw[start], row, last, size)
        last = bytes(row)
        rows.append(last)
    return size, rows


def unfilter(kind: int, row: bytearray, above: bytes, size: int) -> None:
    """Undoes a PNG filter in place."""
    for i in range(len(row)) if kind else ():
        a = row[i - size] if i >= size else 0
        b, c = above[i], above[i - size] if i >= size else 0
        if kind == 4:
            p = a + b - c
            guess = min((abs(p - v), k, v) for k, v in enumerate((a, b, c)))[2]
        else:
            guess = {1: a, 2: b, 3: (a + b) // 2}[kind]
        row[i] = (row[i] + guess) & 255


@needs_browser
@pytest.mark.parametrize("theme", ("light", "dark"))
def test_screenshot_has_colors(theme: str, made, tmp_path: Path) -> None:
    # Only the cards: the first has a shard for each of the eight ways.
    page = tmp_path / "cards.html"
    page.write_text(made["heads-cut"][0].read_text().replace(
        "</style>", "main > section:not(#classes) { display: none }</style>"))
    dark = ["--blink-settings=preferredColorScheme=0"]
    browse(tmp_path, page.as_uri(), "1280,800", "--screenshot=page.png",
           *(dark if theme == "dark" else []))
    size, rows = pixels(tmp_path / "page.png")
    assert len(rows) == 800 and len(rows[0]) == 1280 * size
    seen: dict = {}
    for row in rows[::2]:
        for x in range(0, len(row), size * 2):
            color = row[x:x + 3]
            seen[color] = seen.get(color, 0) + 1
    background = max(seen, key=seen.get)
    assert (sum(background) > 600) == (theme == "light")
    # The ways' colors, in areas.
    areas = [
        color for color, count in seen.items()
        if count > 100 and max(color) - min(color) > 60
    ]
    assert len(areas) >= 8, areas


def spot(text: str) -> tuple[int, int]:
    """Row and column that a tip tells."""
    found = re.search(r"row (\d+)(?: column (\d+))?$", text)
    return int(found[1]), int(found[2] or 0)


def columns_of(c: list) -> int:
    """Columns of a class as it is drawn."""
    return c[1][c[2] - 1] if c[2] - bool(c[8]) > 1 else 1


def placed(plan: dict) -> dict:
    """(class, way, (row, column)) -> tensor, element and columns there."""
    out = {}
    for box in plan["boxes"]:
        loops, to = box[2], box[9]
        tensor = plan["hf"]["classes"][to[0]]
        columns = columns_of(plan["source"]["classes"][box[0]])
        pairs = zip(elements(box[6], box[7][:loops], box[8][:loops]),
                    elements(to[4], box[7][:loops], to[5][:loops]))
        for here, there in pairs:
            out[box[0], box[1], divmod(here, columns)] = (
                tensor[0][0], there, columns_of(tensor))
    return out


PROBE = """<script>
const root = document.documentElement;
const say = (key, value) => { root.dataset[key] = value; };
say("over", root.scrollWidth - root.clientWidth);
for (const details of document.querySelectorAll("details")) details.open = true;
say("overOpen", root.scrollWidth - root.clientWidth);
const pics = [...document.querySelectorAll(".pic")];
const tips = pics.map((pic) => [0.02, 0.35, 0.5, 0.77, 0.98].map((part) => {
  pic.scrollIntoView({block: "center"});
  const frame = pic.querySelector(".frame").getBoundingClientRect();
  pic.dispatchEvent(new PointerEvent("pointermove", {
    clientX: frame.left + part * frame.width,
    clientY: frame.top + part * frame.height,
  }));
  return document.getElementById("tip").textContent;
}));
say("tips", JSON.stringify(tips));
const way = pics[1].querySelector("path[data-w]");
way.dispatchEvent(new MouseEvent("click", {bubbles: true}));
const card = pics[1].closest(".card");
say("faint", card.querySelectorAll("path.faint").length);
say("other", card.querySelectorAll(
  `path[data-w]:not([data-w="${way.dataset.w}"])`).length);
const select = card.querySelector("select");
say("chosen", select.value);
select.value = "";
select.dispatchEvent(new Event("change"));
say("left", card.querySelectorAll(".faint").length);
</script>"""


class RootOf(HTMLParser):
    """Attributes of the outermost element of what a browser prints."""

    def __init__(self, text: str):
        super().__init__()
        self.values: dict = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "html":
            self.values = dict(attributes)


@needs_browser
@pytest.mark.parametrize("width", (1280, 500))
@pytest.mark.parametrize("case", ("heads-cut", "interleave", "reshard"))
def test_fits_and_answers(case: str, width: int, made, tmp_path: Path) -> None:
    path, plan = made[case]
    probed = tmp_path / "probed.html"
    probed.write_text(path.read_text().replace("</body>", PROBE + "</body>"))
    text = browse(tmp_path, probed.as_uri(), f"{width},1200", "--dump-dom")
    root = RootOf(text).values
    assert int(root["data-over"]) <= 0 and int(root["data-over-open"]) <= 0
    assert root["data-faint"] == root["data-other"] != "0"
    assert root["data-chosen"] == "1" and root["data-left"] == "0"
    tips = json.loads(root["data-tips"])
    places = placed(plan)
    drawings = Page(path.read_text()).drawings
    assert len(tips) == len(drawings)
    told = 0
    for drawing, texts in zip(drawings, tips):
        if drawing["data-side"] == "s":
            number = int(drawing["data-of"])
        for tip in texts:
            # A gap, padding, or a part of another class.
            if not tip or tip.endswith("left out") or tip.startswith("class"):
                continue
            here, there, *_ = tip.split(" \u2192 ")
            way = int(re.match(r"way (\d+) ", here)[1])
            name, tensor, columns = places[number, way, spot(here)]
            row, column = divmod(tensor, columns)
            want = f" row {row}" + (columns > 1) * f" column {column}"
            assert there.endswith(want) and name.endswith(there[:-len(want)])
            told += 1
    assert told > 3 * len(drawings)
