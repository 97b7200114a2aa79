"""Checks every #include in src/ against the tables of src/README.md: between folders, and of third-party headers."""
import fnmatch
import re

from tree import SRC, TreeTest, backticked, cpp_files, main, numbered_lines, rows_of_table

README = (SRC / "README.md").read_text(encoding="utf-8")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SYSTEM_HEADERS = {"arpa/inet.h", "dirent.h", "dlfcn.h", "errno.h", "fcntl.h", "ifaddrs.h", "malloc.h", "poll.h",
                  "link.h", "pthread.h", "pwd.h", "sched.h", "signal.h", "spawn.h", "termios.h", "unistd.h", "sys/*",
                  "gnu/*", "linux/*"}


def subfolder_of(path):
    """`base` of base/log.h, `data/image` of data/image/image.h; `main.cpp` of itself."""
    return str(path).rpartition("/")[0] or str(path)


def folder_of(path):
    """`data` of data/image/image.h; `main.cpp` of itself."""
    return str(path).partition("/")[0]


def table_of(first_header):
    """By row of a table: the folders and single headers that it may use."""
    return {backticked(name)[0].rstrip("/"): set(re.findall(r"[\w./]+", may_use.replace("`", ""))) - {"nothing"}
            for name, _, may_use in rows_of_table(README, first_header)}


def includes():
    """File in src/, line number, bracket and header of every #include."""
    for path in cpp_files(SRC):
        for number, line in numbered_lines(path):
            match = INCLUDE.match(line)
            if match:
                yield path.relative_to(SRC), number, match[1], match[2]


def is_third_party(header):
    is_standard = re.fullmatch(r"[a-z0-9_]+", header)
    return not is_standard and not any(fnmatch.fnmatchcase(header, pattern) for pattern in SYSTEM_HEADERS)


class FoldersTest(TreeTest):
    def test_the_tables_name_every_folder(self):
        files = [path.relative_to(SRC) for path in SRC.rglob("*") if path.suffix != ".md" and path.is_file()]
        folders = {folder_of(path) for path in files} - {"CMakeLists.txt"}
        self.assertEqual(set(table_of("folder")), folders)
        subfolders = {subfolder_of(path) for path in files if folder_of(path) != "tools"} - folders - {"CMakeLists.txt"}
        self.assertEqual(set(table_of("subfolder")) - {"tools/*"}, subfolders)

    def test_cmake_lists_the_folders_in_the_order_of_the_table(self):
        sources = re.findall(r"[\w/]+\.cpp", (SRC / "CMakeLists.txt").read_text(encoding="utf-8"))
        folders = list(dict.fromkeys(folder_of(source) for source in sources if (SRC / source).is_file()))
        self.assertEqual(folders, [folder for folder in table_of("folder") if folder in folders])

    def test_a_folder_uses_folders_above_it(self):
        above = []
        for folder, may_use in table_of("folder").items():
            with self.subTest(folder=folder):
                self.assertFalse({word for word in may_use if not word.endswith(".h")} - set(above))
            above.append(folder)

    def test_folders_use_only_what_the_table_allows(self):
        table, faults = table_of("folder"), []
        for file, number, bracket, header in includes():
            own, other = folder_of(file), folder_of(header)
            if bracket == '"' and not (SRC / header).is_file():
                faults.append(f'src/{file}:{number}: "{header}" is no file of src/')
            elif bracket == '"' and other != own and not table[own] & {other, header}:
                faults.append(f"src/{file}:{number}: {own} may not use {header}")
        self.assert_none(faults, "src/README.md does not allow")

    def test_subfolders_use_only_what_the_table_allows(self):
        table, faults = table_of("subfolder"), []
        for file, number, bracket, header in includes():
            own, other = subfolder_of(file), subfolder_of(header)
            if bracket != '"' or own == other or folder_of(own) != folder_of(other):
                continue
            may_use = table.get(own, table["tools/*"] if own.startswith("tools/") else {other})
            if not may_use & {other, header}:
                faults.append(f"src/{file}:{number}: {own} may not use {header}")
        self.assert_none(faults, "src/README.md does not allow")

    def test_third_party_headers_are_included_where_the_table_allows(self):
        places = {}
        for headers, files in rows_of_table(README, "headers"):
            for pattern in backticked(headers):
                places[pattern] = places.get(pattern, []) + backticked(files)
        faults = []
        for file, number, bracket, header in includes():
            if bracket != "<" or not is_third_party(header):
                continue
            rows = [pattern for pattern in places if fnmatch.fnmatchcase(header, pattern)]
            if not rows:
                faults.append(f"src/{file}:{number}: <{header}> is in no row of the table")
                continue
            allowed = places[max(rows, key=len)]  # the most specific row wins
            if not any(fnmatch.fnmatchcase(str(file), pattern) for pattern in allowed):
                faults.append(f"src/{file}:{number}: <{header}> may stand only in {', '.join(allowed)}")
        self.assert_none(faults, "src/README.md does not allow")

    def test_the_includes_were_found(self):
        self.assertGreater(len(list(includes())), 500)


if __name__ == "__main__":
    main()
