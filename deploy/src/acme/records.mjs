// Plain JavaScript: control starts it as a program, with whatever Node its first line names.
import { readFileSync, renameSync, writeFileSync } from "node:fs";

/**
 * Texts of names, one a line: a name, a space, and the text. A person may add lines as well.
 *
 * @param {string} file
 * @returns {{ name: string, text: string }[]}
 */
export function readRecords(file) {
  return readLines(file).flatMap((line) => {
    const [, name, text] = /^(\S+)\s+(\S.*?)\s*$/.exec(line) ?? [];
    return name === undefined || text === undefined ? [] : [{ name: name.toLowerCase().replace(/\.$/, ""), text }];
  });
}

/**
 * What control has a program do: `put` or `remove`, a name, and its text.
 *
 * @param {string} file
 * @param {readonly string[]} args
 */
export function changeRecords(file, [what, name, text]) {
  if (name === undefined || text === undefined || (what !== "put" && what !== "remove"))
    throw new Error("usage: put|remove <name> <text>");
  const line = `${name} ${text}`;
  const others = readLines(file).filter((each) => each !== line);
  const lines = what === "put" ? [...others, line] : others;
  writeFileSync(`${file}.new`, lines.map((each) => `${each}\n`).join(""));
  renameSync(`${file}.new`, file);
}

/**
 * @param {string} file
 * @returns {string[]}
 */
function readLines(file) {
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.trim() !== "");
  } catch {
    return [];
  }
}
