import { expect, test } from "vitest";
import { isNoteworthy, type Noted, nextNote, notesMax } from "./rules.ts";

const well: Noted = { trouble: null, restarts: 0, notes: 0 };
const crashed: Noted = { trouble: "crashed", restarts: 0, notes: 1 };
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
  expect(noted).toEqual({ trouble: null, restarts: 200, notes: notesMax });
  expect(nextNote(backoff, noted)).toMatchObject({ event: null, noted: { trouble: "crashed" } });
  expect(nextNote(over, noted)?.event?.phase).toBe("ended");
});

test("an app that never fell over is not worth a look", () => {
  expect([healthy, backoff, over, starting].map(isNoteworthy)).toEqual([false, true, true, true]);
});
