import { Socket } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { loadModule } from "libpg-query";
import { pipeFd, transferFd } from "../child-process.ts";
import { type ChildMessage, isTransfer, taskMessage } from "../requests.ts";
import { createLines } from "./lines.ts";
import { perform } from "./perform.ts";

/**
 * Speaks with the servers of branches on control's behalf: what tenants' servers answer is read here and nowhere else. It has no
 * way to anything but the bytes that its parent hands it, and whatever surprises it ends it: the parent makes another one.
 */
const lines = createLines(new Socket({ fd: pipeFd }));

function say(message: ChildMessage): void {
  process.send?.(message);
}

process.on("disconnect", () => process.exit());
process.on("message", async (message) => {
  // A promise that fails ends the process, as everything does that nobody expected.
  const task = taskMessage.parse(message);
  const transfer = isTransfer(task.name) ? createLines(new Socket({ fd: transferFd })) : null;
  const answer = await perform(systemClock, task, { line: lines.open(), transfer: transfer?.open() ?? null }, say);
  // Its end first: the answer tells that all of it was sent. A refusal waits for nothing.
  if (answer.says === "given") await transfer?.close();
  say(answer);
  await lines.close();
  say({ says: "idle" });
});
// Before there is work, so that nobody waits for it.
await loadModule();
say({ says: "idle" });
