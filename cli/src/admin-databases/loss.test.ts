import { expect, test } from "vitest";
import { CliError } from "../errors.ts";
import { lossOf } from "./loss.ts";

const answering = (code: string, message: string) => ({
  post: async () => {
    throw new CliError("CLOUD_REQUEST_FAILED", message, {
      server: { status: 400, code, message, retryAfterSeconds: null },
    });
  },
});
const path = "/admin/databases/d/restore";

test("what is lost is what the platform says of the copy that it would choose", async () => {
  const said = "What was written after 2030-01-01T11:00:00.000Z is lost. Repeat the call with confirm: true.";
  expect(await lossOf(answering("DESTRUCTIVE_CONFIRMATION_REQUIRED", said), path, {})).toBe(
    "What was written after 2030-01-01T11:00:00.000Z is lost.",
  );
});

test("what stands against it is told before anybody is asked", async () => {
  await expect(lossOf(answering("CONFLICT", "There is no copy."), path, {})).rejects.toThrow("There is no copy.");
});
