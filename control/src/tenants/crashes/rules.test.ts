import { expect, test } from "vitest";
import { isNoteworthy, type Noted, nextNote, notesMax } from "./rules.ts";

const well: Noted = { trouble: null, restarts: 0, notes: 0, crashing: null };
const crashed: Noted = { trouble: "crashed", restarts: 0, notes: 1, crashing: null };
const crashing = {
  ...{ since: "2030-01-01T00:00:00.000Z", lastAt: "2030-01-01T00:00:00.000Z", count: 1 },
  ...{ reason: "The app was ended by the signal SIGKILL.", nextStartAt: "2030-01-01T00:00:00.000Z" },
};
const failure = {
  code: "CRASH_LOOP",
  message: "The app exited with code 7 and is started again. Last lines:\nboom",
  exitCode: 7,
  oomKilled: false,
};
const backoff = { observed: "running", health: "backoff", restartSeq: 0, failure } as const;
const healthy = { observed: "running", health: "healthy", restartSeq: 0, failure: null } as const;
const starting = { ...healthy, health: "starting", restartSeq: 1 } as const;
const over = { observed: "failed", health: null, restartSeq: 3, failure } as const;

test.each([
  {
    when: "it crashed",
    facts: backoff,
    before: well,
    says: ["crashed", "The app exited with code 7 and is started again."],
  },
  { when: "it crashed again before it answered", facts: { ...backoff, restartSeq: 4 }, before: crashed, says: null },
  { when: "it is being started again", facts: starting, before: crashed, says: null },
  {
    when: "it answers again",
    facts: { ...healthy, restartSeq: 1 },
    before: crashed,
    says: ["recovered", "after a restart"],
  },
  {
    when: "it took several",
    facts: { ...healthy, restartSeq: 4 },
    before: crashed,
    says: ["recovered", "after 4 restarts"],
  },
  {
    when: "nobody saw the crash",
    facts: { ...healthy, restartSeq: 1 },
    before: well,
    says: ["recovered", "after a restart"],
  },
  { when: "that was told", facts: { ...healthy, restartSeq: 1 }, before: { ...well, restarts: 1 }, says: null },
  { when: "all is well", facts: healthy, before: well, says: null },
  { when: "it is over", facts: over, before: crashed, says: ["ended", "The app exited with code 7"] },
  { when: "that was told, too", facts: over, before: { ...crashed, trouble: "ended" as const }, says: null },
])("when $when", ({ facts, before, says }) => {
  const note = nextNote(facts, before);
  if (says === null) return expect(note).toBeNull();
  expect(note?.event?.phase).toBe(says[0]);
  expect(note?.event?.detail).toContain(says[1]);
  expect(note?.event?.detail).not.toContain("boom");
  // What was noted is not noted again.
  expect(nextNote(facts, note?.noted ?? before)).toBeNull();
});

/** All that is noted of one report after the other: what is written, and what is known in the end. */
function told(reports: readonly Parameters<typeof nextNote>[0][]) {
  let noted = well;
  const lines: string[][] = [];
  for (const facts of reports) {
    for (let note = nextNote(facts, noted); note !== null; note = nextNote(facts, noted)) {
      if (note.event) lines.push([note.event.phase, note.event.detail]);
      noted = note.noted;
    }
  }
  return { lines, noted };
}
const again = { ...healthy, restartSeq: 1, crashing };
const recovered = ["recovered", "The app answers again after a restart."];

test("a crash that is over when it is first heard of is told with its reason", () => {
  expect(told([again, again])).toEqual({
    lines: [["crashed", crashing.reason], recovered],
    noted: { trouble: null, restarts: 1, notes: 2, crashing },
  });
});

test("a reason that was found out later is told, too, and nothing besides", () => {
  const better = { ...crashing, reason: "The app was killed because it used more than its 512 MB of memory." };
  const { lines, noted } = told([{ ...starting, crashing }, again, { ...again, crashing: better }]);
  expect(lines).toEqual([["crashed", crashing.reason], recovered, ["crashed", better.reason]]);
  expect(noted).toMatchObject({ trouble: null, crashing: better });
});

test("how often it crashed in a row is known without a line for each, until it has run for a while", () => {
  const later = { ...crashing, lastAt: "2030-01-01T00:00:09.000Z", count: 2 };
  const { lines, noted } = told([
    { ...backoff, crashing },
    { ...backoff, restartSeq: 1, crashing: later },
  ]);
  expect([lines, noted]).toEqual([[["crashed", crashing.reason]], { ...crashed, crashing: later }]);
  expect(told([again, { ...healthy, restartSeq: 1 }]).noted.crashing).toBeNull();
  expect(told([{ ...over, crashing: { ...later, nextStartAt: null } }]).noted).toMatchObject({
    trouble: "ended",
    crashing: { count: 2, nextStartAt: null },
  });
});

test("an app that falls over for ever is not listed for ever, and its state is still known", () => {
  let noted = well;
  const details: string[] = [];
  for (let restartSeq = 0; restartSeq < 200; restartSeq += 1) {
    for (const facts of [
      { ...backoff, restartSeq },
      { ...healthy, restartSeq: restartSeq + 1 },
    ]) {
      const note = nextNote(facts, noted);
      if (note?.event) details.push(note.event.detail);
      noted = note?.noted ?? noted;
    }
  }
  expect(details).toHaveLength(notesMax);
  expect(details.at(-1)).toContain("too often");
  expect(noted).toEqual({ trouble: null, restarts: 200, notes: notesMax, crashing: null });
  expect(nextNote(backoff, noted)).toMatchObject({ event: null, noted: { trouble: "crashed" } });
  expect(nextNote(over, noted)?.event?.phase).toBe("ended");
});

test("an app that never fell over is not worth a look", () => {
  expect([healthy, backoff, over, starting].map(isNoteworthy)).toEqual([false, true, true, true]);
});
