"""What a command's options look like outside of the program: a JSON Schema of a --config file, and tables of Markdown."""
import json
import re

LOWEST = -2**63  # any 64-bit integer
RESUME = "On resume"
# <!-- options:train --> has every option of a command, <!-- options:train epochs patience --> these alone, without ranges and
# units.
MARKED = re.compile(r"(<!-- options:(transform [a-z]+|[a-z-]+)((?: [a-z-]+)*) -->\n)(.*?)(\n<!-- /options -->)", re.S)


def first_sentence(text):
    return text.split(". ")[0].removesuffix(".")


# ---- schema ----

def pattern(expression):
    return {"type": "string", "pattern": expression}


def integer_type(option):
    bounds = {} if option["minimum"] == LOWEST else {"minimum": option["minimum"], "maximum": option["maximum"]}
    return {"type": "integer"} | bounds


def number_type(option):
    return {"type": "number", "exclusiveMinimum": option["minimum"], "maximum": option["maximum"]}


def any_of(*types):
    return {"anyOf": list(types)}


def choice_type(option):
    numbers = [int(choice) for choice in option["choices"] if re.fullmatch("[0-9]+", choice)]
    return {"enum": option["choices"] + numbers}  # in YAML a 1 without quotes is a number


def every_type(_):
    item = "[0-9]+(epochs?|steps?|s|min|h)"
    return pattern(f"^{item}(,{item})*$")


def augment_type(option):
    step = "(" + option["range"].split(" list of ")[1].replace(",", "|") + ")"
    return pattern(f"^(none|standard|strong|{step}(,{step})*)$")


TYPES = {
    "text": lambda _: {"type": "string", "minLength": 1},
    "path": lambda _: {"type": "string", "minLength": 1},
    "integer": integer_type,
    "auto or integer": lambda option: any_of({"const": "auto"}, integer_type(option)),
    "auto or size": lambda option: any_of({"const": "auto"}, integer_type(option), pattern("^[0-9]+x[0-9]+$")),
    "crop size": lambda option: any_of({"enum": ["auto", "larger"]}, integer_type(option)),
    "number from": lambda option: {"type": "number", "minimum": option["minimum"], "maximum": option["maximum"]},
    "number": number_type,
    "choice": choice_type,
    "model name": choice_type,
    "choice or number": lambda option: any_of({"enum": option["choices"]}, number_type(option)),
    "counted choice": lambda option: pattern("^(" + "|".join(option["choices"]) + "(:[0-9]+)?)$"),
    "boolean": lambda _: {"type": "boolean"},
    "switch": lambda _: {"type": "boolean"},
    "flag": lambda _: {"type": "boolean"},
    "share": lambda _: any_of({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, pattern("^[0-9]+(\\.[0-9]+)?%?$")),
    "allowance": lambda option: any_of(integer_type(option), pattern("^(auto|[0-9]+(\\.[0-9]+)?%)$")),
    "every": every_type,
    "augment": augment_type,
    "duration": lambda _: pattern("^[0-9]+(s|min|h)$"),
    "image size": lambda option: any_of(integer_type(option), pattern("^\\[ *[0-9]+ *, *[0-9]+ *\\]$")),
}


def default_of(option):
    text = option["default"]
    if option["kind"] in ("boolean", "switch"):
        return text == "True"
    try:
        return json.loads(text) if re.match("[-0-9]", text) else text
    except ValueError:
        return text


def json_schema(command):
    """Of a --config file (draft 2020-12): any option, with `-` or `_` in its name."""
    properties, other_spellings = {}, {}
    for option in command["options"]:
        name = option["name"]
        if name == "config":
            continue
        properties[name] = TYPES[option["kind"]](option)
        if option["default"]:
            properties[name]["default"] = default_of(option)
        properties[name]["description"] = option["help"] + (f" Unit: {option['unit']}." if option["unit"] else "")
        if "-" in name:
            other_spellings["^" + name.replace("-", "[-_]") + "$"] = {"$ref": f"#/properties/{name}"}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"kiln {command['name']}",
              "description": command["summary"], "type": "object", "properties": properties,
              "patternProperties": other_spellings, "additionalProperties": False}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# ---- Markdown ----

def table(titles, rows):
    """A pipe character would end a cell."""
    lines = [titles, ["---"] * len(titles)] + [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join("| " + " | ".join(line) + " |\n" if line is not lines[1] else "|" + "|".join(line) + "|\n"
                   for line in lines)


def default_cell(option):
    return "(required)" if option["required"] else f"`{option['default']}`" if option["default"] else ""


def markdown(command):
    resumes = any(option["effect"] for option in command["options"])
    titles = ["Option", "Default", "Range", "Unit", *([RESUME] if resumes else []), "Meaning"]
    return table(titles, [[f"`--{option['name']}`", default_cell(option), option["range"], option["unit"],
                           *([option["effect"]] if option["effect"] else []), option["help"]] for option in command["options"]])


def short_table(command, names):
    rows = {option["name"]: [f"`--{option['name']}`", default_cell(option), option["help"]] for option in command["options"]}
    return table(["option", "default", "meaning"], [rows[name] for name in names])


def with_tables(text, commands):
    """A page with its marked tables made anew."""
    def renewed(found):
        command = next(command for command in commands if command["name"] == found[2])
        return found[1] + (short_table(command, found[3].split()) if found[3] else markdown(command)) + found[5]
    return MARKED.sub(renewed, text)
