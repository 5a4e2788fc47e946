import { expect, test } from "vitest";
import { createStop, type Hearer } from "./stop.ts";

const cases: { when: string; heard: Hearer[]; does: string[] }[] = [
  { when: "it is asked once", heard: ["us"], does: ["stop"] },
  { when: "it is asked twice", heard: ["us", "us"], does: ["stop", "exit"] },
  { when: "only what started it is asked", heard: ["starter", "starter"], does: ["stop", "exit"] },
  { when: "one press of Ctrl-C reaches both", heard: ["us", "starter"], does: ["stop", "nothing"] },
  { when: "and what is passed on comes first", heard: ["starter", "us"], does: ["stop", "nothing"] },
  {
    when: "Ctrl-C is pressed twice",
    heard: ["us", "starter", "us", "starter"],
    does: ["stop", "nothing", "exit", "nothing"],
  },
];

test.each(cases)("when $when: $does", ({ heard, does }) => {
  expect(heard.map(createStop())).toEqual(does);
});
