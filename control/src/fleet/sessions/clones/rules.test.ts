import { describe, expect, test } from "vitest";
import { bootTookAt, contestedForMs, isCloned, type Takeover, takeoversAfter } from "./rules.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);

/** Plays claims of the session one after another; the instance that is found to be one of two, or null. */
function play(
  claims: readonly (readonly [instanceId: string, atSeconds: number, hungUpBefore?: boolean])[],
): string | null {
  let holder: { instanceId: string; bootId: string; takeovers: Takeover[]; detached: boolean } | null = null;
  for (const [instanceId, seconds, hungUpBefore = false] of claims) {
    if (holder !== null) holder.detached = hungUpBefore;
    const claimant = { instanceId, bootId: `boot of ${instanceId}` };
    const takeovers = takeoversAfter(holder, claimant, at(seconds));
    if (isCloned(takeovers, claimant)) return instanceId;
    holder = { ...claimant, takeovers, detached: false };
  }
  return null;
}

describe("two machines with one identity", () => {
  test("are found when they take the session from each other", () => {
    const claims = ["a", "b", "a", "b", "a"].map((instance, index) => [instance, index * 5] as const);
    expect(play(claims)).toBe("a");
  });

  test("are found when one of them takes it, hangs up, and comes back under another name", () => {
    const claims = [0, 1, 2, 3].flatMap((n) => [["a", n * 10, true] as const, [`thief ${n}`, n * 10 + 5] as const]);
    expect(play(claims)).toBe("a");
  });

  test("are told apart from an agent that ends and is started again and again", () => {
    expect(play(Array.from({ length: 40 }, (_, index) => [`start ${index}`, index] as const))).toBeNull();
  });

  test("are told apart from an agent whose connection breaks again and again", () => {
    expect(play(Array.from({ length: 40 }, (_, index) => ["a", index] as const))).toBeNull();
  });

  test("are told apart from a late message of a process that has ended", () => {
    expect(
      play([
        ["a", 0],
        ["b", 1],
        ["a", 2],
        ["b", 3],
      ]),
    ).toBeNull();
  });

  test("are not found in what happened long ago", () => {
    expect(
      play([
        ["a", 0],
        ["b", 1],
        ["a", 2],
        ["b", 300],
        ["a", 600],
        ["b", 900],
      ]),
    ).toBeNull();
  });

  test("a boot that takes the session from another one has to stand for a lease, however often it comes", () => {
    const lease = 15_000;
    const tell = (holder: Parameters<typeof bootTookAt>[0], bootId: string, seconds: number) => {
      const next = { instanceId: "i", bootId };
      const took = bootTookAt(holder, next, at(seconds));
      return { holder: { ...next, bootTookAt: took }, forMs: contestedForMs(took, lease, at(seconds)) };
    };
    const alone = tell(null, "a", 0);
    const again = tell(alone.holder, "a", 1);
    expect([alone.forMs, again.forMs]).toEqual([0, 0]);
    const other = tell(again.holder, "b", 2);
    const otherAgain = tell(other.holder, "b", 6);
    const stood = tell(otherAgain.holder, "b", 17);
    expect([other.forMs, otherAgain.forMs, stood.forMs]).toEqual([lease, 11_000, 0]);
    expect(tell(stood.holder, "a", 18).forMs).toBe(lease);
  });

  test("what is remembered stays small", () => {
    let holder = { instanceId: "0", bootId: "x", takeovers: [] as Takeover[], detached: false };
    for (let n = 1; n < 100; n += 1) {
      const next = { instanceId: String(n), bootId: "x" };
      holder = { ...next, takeovers: takeoversAfter(holder, next, at(n)), detached: false };
    }
    expect(holder.takeovers.length).toBeLessThanOrEqual(8);
  });
});
