import { expect, test } from "vitest";
import { tellingFiles, tellingOfBuild } from "./project.ts";

const deep = "a/b/c/d/e/f/web";
const files = ["package.json", "a/b/nx.json", "a/b/package.json", `${deep}/src/main.ts`, `${deep}/package.json`];

test.each([
  { when: "nobody named a directory", named: "", told: ["package.json", "a/b/package.json"] },
  {
    when: "one is named that is as deep as nobody looks",
    named: deep,
    told: [`${deep}/package.json`, "a/b/package.json", "package.json", `${deep}/src/main.ts`],
  },
  {
    when: "another one is named",
    named: "a/b/c/d/e/f/other",
    told: ["a/b/package.json", "package.json"],
  },
])("when $when, what tells is that near it", ({ named, told }) => {
  expect(tellingFiles(files, 10, named)).toEqual(told);
});

test("how a deep directory is built is told by it and by those around it", () => {
  expect(tellingOfBuild(files, deep)).toEqual([`${deep}/package.json`, "a/b/package.json", "package.json"]);
});
