import { setTimeout as delay } from "node:timers/promises";

/** Polls until `condition` holds. What it throws counts as "not yet", and is told when the time is over. */
export async function waitFor(condition: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const endsAt = Date.now() + timeoutMs;
  let last: unknown = "it stayed false";
  for (;;) {
    try {
      if (await condition()) return;
    } catch (cause) {
      last = cause;
    }
    if (Date.now() > endsAt) throw new Error("the condition did not come true in time", { cause: last });
    await delay(10);
  }
}
