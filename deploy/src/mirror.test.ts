import { expect, test } from "vitest";
import { mirrorIn, securityMirrorIn } from "./mirror.ts";

test.each([
  { when: "a line names it", sources: "deb http://mirror.test/debian trixie main\n", is: "http://mirror.test/debian" },
  {
    when: "the line has options, and a slash at the end",
    sources: "deb [arch=amd64 signed-by=/k.gpg] https://mirror.test/pub/debian/ bookworm main",
    is: "https://mirror.test/pub/debian",
  },
  {
    when: "others come before it",
    sources: "Types: deb\nURIs: https://node.test/node_20.x\n\nTypes: deb\nURIs: http://mirror.test/debian\n",
    is: "http://mirror.test/debian",
  },
  { when: "only updates for security are named", sources: "URIs: http://mirror.test/debian-security\n", is: null },
  { when: "it is only mentioned", sources: "# deb http://mirror.test/debian trixie main\n", is: null },
  { when: "nothing is named", sources: "", is: null },
])("the mirror is known when $when", ({ sources, is }) => {
  expect(mirrorIn(sources)).toBe(is);
});

test("updates for security are known where a place of their own is named", () => {
  const security = "URIs: http://mirror.test/debian-security\n";
  expect(securityMirrorIn(`deb http://mirror.test/debian trixie main\n${security}`)).toBe(
    "http://mirror.test/debian-security",
  );
  expect(securityMirrorIn("deb http://mirror.test/debian trixie main\n")).toBeNull();
});
