import { randomUUID } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { Held, holdExclusively } from "./exclusive.ts";

test("a name is held once, and free again afterwards", async () => {
  const name = randomUUID();
  const first = await holdExclusively(systemClock, name, 0);
  await expect(holdExclusively(systemClock, name, 0)).rejects.toThrow(Held);
  const second = holdExclusively(systemClock, name, 5_000);
  await first[Symbol.asyncDispose]();
  await (await second)[Symbol.asyncDispose]();
});
