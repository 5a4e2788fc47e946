import { expect, test } from "vitest";
import { nextScreenshotStep, type ScreenshotFacts, type ScreenshotStep } from "./steps.ts";

const site = { image: "svc-capture:1", url: "http://shop.svc.test/", edge: "192.0.2.1:80" };
const file = { digest: "sha256:1", sizeBytes: 10 };
const task = { taskId: "t", wanted: true, state: "running", problem: null, file: null } as const;

test.each<{ when: string; facts: Partial<ScreenshotFacts>; step: ScreenshotStep }>([
  { when: "it was asked for", facts: {}, step: { do: "startTask", site } },
  { when: "no edge is known", facts: { site: null }, step: { do: "wait", for: "an edge" } },
  { when: "the node is at it", facts: { task }, step: { do: "wait", for: "the node to be done" } },
  {
    when: "no node has it yet",
    facts: { task: { ...task, state: "waiting" } },
    step: { do: "wait", for: "the node to be done" },
  },
  {
    when: "there is a picture",
    facts: { task: { ...task, state: "completed", file } },
    step: { do: "accept", taskId: "t", file },
  },
  {
    when: "the browser failed",
    facts: { task: { ...task, state: "failed", problem: "No page." } },
    step: { do: "countFailure", taskId: "t", reason: "No page." },
  },
  {
    when: "the node says nothing of a picture",
    facts: { task: { ...task, state: "completed" } },
    step: { do: "countFailure", taskId: "t", reason: "Nobody knows what the machine has made." },
  },
  {
    when: "its owner has enough of them under way",
    facts: { crowded: true },
    step: { do: "wait", for: "the owner's others" },
  },
  {
    when: "its owner has more to come",
    facts: { crowded: true, task },
    step: { do: "wait", for: "the node to be done" },
  },
  { when: "a try failed just now", facts: { failures: 1 }, step: { do: "wait", for: "the next try" } },
  { when: "a try failed a while ago", facts: { failures: 1, ageMs: 45_000 }, step: { do: "startTask", site } },
  {
    when: "the machine is taken out of service",
    facts: { task: { ...task, wanted: false } },
    step: { do: "startTask", site },
  },
  {
    when: "a picture is of a task that was asked to go",
    facts: { task: { ...task, wanted: false, state: "completed", file } },
    step: { do: "startTask", site },
  },
  {
    when: "three tries failed",
    facts: { failures: 3, ageMs: 60_000 },
    step: { do: "giveUp", reason: "It came to nothing 3 times." },
  },
  {
    when: "nothing came of it for ten minutes",
    facts: { ageMs: 600_000, task },
    step: { do: "giveUp", reason: "No machine has taken a picture in time." },
  },
  {
    when: "the deployment was replaced",
    facts: { live: false, task: { ...task, state: "completed", file } },
    step: { do: "giveUp", reason: "The deployment is not live any more." },
  },
  {
    when: "it is over, and its task is there",
    facts: { pending: false, task },
    step: { do: "removeTask", taskId: "t" },
  },
  { when: "it is over", facts: { pending: false, task: { ...task, wanted: false } }, step: { do: "end" } },
])("when $when", ({ facts, step }) => {
  expect(
    nextScreenshotStep({
      pending: true,
      failures: 0,
      ageMs: 1_000,
      live: true,
      crowded: false,
      site,
      task: null,
      ...facts,
    }),
  ).toEqual(step);
});
