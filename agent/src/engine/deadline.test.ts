import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { withDeadline } from "./deadline.ts";
import { isEngineTrouble } from "./errors.ts";

const fails =
  (error: object): (() => Promise<never>) =>
  () =>
    Promise.reject(Object.assign(new Error("raw"), error));

test("an engine that does not answer is reported, not waited for", async () => {
  const call = withDeadline(systemClock, "start container", 20, () => new Promise(() => {}));
  await expect(call).rejects.toMatchObject({ kind: "stalled", message: expect.stringContaining("start container") });
  expect(isEngineTrouble(await call.catch((cause: unknown) => cause))).toBe(true);
});

test.each([
  { when: "it answers 404", error: { statusCode: 404 }, kind: "not-found", isTrouble: false },
  { when: "it answers 409", error: { statusCode: 409 }, kind: "conflict", isTrouble: false },
  {
    when: "it answers 500",
    error: { statusCode: 500, json: { message: "no space" } },
    kind: "failed",
    isTrouble: false,
  },
  { when: "nobody listens", error: { code: "ECONNREFUSED" }, kind: "unreachable", isTrouble: true },
])("when $when the error is $kind", async ({ error, kind, isTrouble }) => {
  const cause = await withDeadline(systemClock, "x", 1_000, fails(error)).catch((reason: unknown) => reason);
  expect(cause).toMatchObject({ kind });
  expect(isEngineTrouble(cause)).toBe(isTrouble);
});

test("the engine's own words are kept", async () => {
  const call = withDeadline(
    systemClock,
    "create",
    1_000,
    fails({ statusCode: 500, json: { message: "no space left" } }),
  );
  await expect(call).rejects.toThrow("create: no space left");
});
