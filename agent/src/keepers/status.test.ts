import { expect, test } from "vitest";
import { readCopyStatus } from "./status.ts";

const at = "2031-02-03T04:05:06.000000Z";
const aText = (...lines: string[]): string => ["svc-copy 1", ...lines, ""].join("\n");

test("a copy that follows is told with all of its bases", () => {
  const text = aText(
    "state following",
    `covered ${at}`,
    "place 16/B374D848",
    "position 16/B374D848",
    `base 000001 ${at} 1200 ${at}`,
    `base 000002 ${at} 1300 -`,
  );
  expect(readCopyStatus(text)).toEqual({
    state: "following",
    problem: "",
    coveredAt: at,
    position: "16/B374D848",
    bases: [
      { number: 1, at, bytes: 1200n, until: at },
      { number: 2, at, bytes: 1300n, until: "" },
    ],
  });
});

test("a copy that has nothing yet says so", () => {
  expect(readCopyStatus(aText("state basing", "problem NOT_REACHED"))).toMatchObject({
    state: "basing",
    problem: expect.stringContaining("not reached"),
    coveredAt: "",
    bases: [],
  });
});

test.each([
  { what: "nothing", text: "" },
  { what: "another version", text: "svc-copy 2\nstate basing\n" },
  { what: "half a line at its end", text: "svc-copy 1\nstate following\ncovered 2031-02" },
  { what: "no state", text: aText(`covered ${at}`) },
  { what: "an unknown state", text: aText("state fine") },
  { what: "an unknown problem", text: aText("state basing", "problem <script>") },
  { what: "a name from the prototype", text: aText("state basing", "problem constructor") },
  { what: "a fact twice", text: aText("state basing", "state broken") },
  { what: "an unknown fact", text: aText("state basing", "mood good") },
  { what: "another form of a moment", text: aText("state basing", "covered yesterday") },
  { what: "another form of a place", text: aText("state basing", "position ../../etc") },
  { what: "a base of more words", text: aText("state following", `base 000001 ${at} 1 - x`) },
  { what: "a base without a number", text: aText("state following", `base 1 ${at} 1 -`) },
  { what: "more bases than there can be", text: aText("state following", ...Array(501).fill(`base 000001 ${at} 1 -`)) },
])("a status with $what is none", ({ text }) => {
  expect(readCopyStatus(text)).toBeNull();
});
