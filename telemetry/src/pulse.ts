/** Whether loops turn: each says so every round, and is missed when it has not for as long as it promised. */
export interface Pulse {
  /** A loop that is to be heard of every `withinMs`; the returned function says that it turned. */
  expect(name: string, withinMs: number): () => void;
  /** The first loop that is overdue, in words; null when all turn. */
  stuck(): string | null;
}

/** @param nowMs a clock that does not go back */
export function createPulse(nowMs: () => number): Pulse {
  const loops = new Map<string, { withinMs: number; turnedAtMs: number }>();
  return {
    expect(name, withinMs) {
      const loop = { withinMs, turnedAtMs: nowMs() };
      loops.set(name, loop);
      return () => {
        loop.turnedAtMs = nowMs();
      };
    },
    stuck() {
      for (const [name, { withinMs, turnedAtMs }] of loops) {
        const silentMs = nowMs() - turnedAtMs;
        if (silentMs > withinMs) return `${name}: no round for ${Math.round(silentMs / 1000)} s`;
      }
      return null;
    },
  };
}
