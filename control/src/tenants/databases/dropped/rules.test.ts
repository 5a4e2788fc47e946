import { expect, test } from "vitest";
import { decideUndrop, type UndropFacts } from "./rules.ts";

const dropped: UndropFacts = {
  ...{ status: null, isRemembered: true, project: "there", successor: null, hasSecrets: true, wasReady: true },
  ...{ hasVolume: true, hasCopy: true },
};

test.each<{ when: string; change: Partial<UndropFacts>; from: string }>([
  { when: "its volume is there", change: {}, from: "volume" },
  { when: "its volume is there and no copy", change: { hasCopy: false }, from: "volume" },
  { when: "its volume is gone", change: { hasVolume: false }, from: "copy" },
  { when: "its project is suspended", change: { project: "suspended" }, from: "volume" },
  { when: "it was never ready", change: { wasReady: false }, from: "volume" },
])("a branch comes back from its $from when $when", ({ change, from }) => {
  expect(decideUndrop({ ...dropped, ...change })).toEqual({ from });
});

test.each<{ when: string; change: Partial<UndropFacts>; code: string; says: RegExp }>([
  { when: "is on its way out", change: { status: "dropping" }, code: "DATABASE_NOT_READY", says: /Try again/ },
  { when: "is there", change: { status: "ready" }, code: "CONFLICT", says: /back already/ },
  { when: "is coming back", change: { status: "provisioning" }, code: "CONFLICT", says: /back already/ },
  { when: "is of a deleted project", change: { project: "deleted" }, code: "CONFLICT", says: /deleted/ },
  { when: "has a successor", change: { successor: "ready" }, code: "CONFLICT", says: /dropped first/ },
  { when: "has one that broke", change: { successor: "error" }, code: "CONFLICT", says: /dropped first/ },
  { when: "has one that goes", change: { successor: "dropping" }, code: "CONFLICT", says: /Try again/ },
  { when: "has nothing left", change: { hasVolume: false, hasCopy: false }, code: "CONFLICT", says: /Neither/ },
  {
    when: "had nothing yet, and lost its machine",
    change: { hasVolume: false, wasReady: false },
    ...{ code: "CONFLICT", says: /Neither/ },
  },
  { when: "has no passwords", change: { hasSecrets: false }, code: "CONFLICT", says: /passwords/ },
  {
    when: "has a copy alone, and a suspended project",
    change: { hasVolume: false, project: "suspended" },
    ...{ code: "CONFLICT", says: /Resume/ },
  },
])("a branch that $when does not come back", ({ change, code, says }) => {
  expect(decideUndrop({ ...dropped, ...change })).toEqual({
    refusal: { code, message: expect.stringMatching(says) },
  });
});

test("what nobody remembers is not found", () => {
  expect(decideUndrop({ ...dropped, isRemembered: false })).toEqual({ refusal: { code: "NOT_FOUND" } });
});

test("nothing comes back without passwords and data, nor beside another one, whatever else is so", () => {
  const words = [null, "provisioning", "ready", "dropping", "error"] as const;
  for (const status of words)
    for (const successor of words)
      for (const project of ["there", "suspended", "deleted"] as const)
        for (let bits = 0; bits < 32; bits += 1) {
          const has = (bit: number) => (bits & bit) !== 0;
          const facts = {
            ...{ status, successor, project, isRemembered: has(1), hasSecrets: has(2), wasReady: has(4) },
            ...{ hasVolume: has(8), hasCopy: has(16) },
          };
          const decided = decideUndrop(facts);
          if ("refusal" in decided) continue;
          expect(facts).toMatchObject({ status: null, successor: null, isRemembered: true, hasSecrets: true });
          expect(project).not.toBe("deleted");
          expect(decided.from === "volume" ? facts.hasVolume : facts.hasCopy && facts.wasReady).toBe(true);
        }
});
