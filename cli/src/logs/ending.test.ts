import { deploymentSchema } from "@svc/proto";
import { expect, test } from "vitest";
import { aDeployment, deploymentId } from "../testing/api.ts";
import { endingOf } from "./ending.ts";

const follow = `Follow it with \`svc logs -f ${deploymentId}\``;

test.each<[fields: object, ...lines: string[]]>([
  [{ status: "queued" }, `note: The deployment waits for its turn. ${follow}`],
  [{ status: "building" }, `note: The deployment is building. ${follow}`],
  [{ status: "deploying" }, `note: The deployment is starting. ${follow}`],
  [{ status: "running" }, "done: The deployment is running"],
  [{ status: "stopped" }, "done: The deployment is stopped"],
  [{ status: "superseded" }, "done: The deployment ran, and a newer one has taken its place"],
  [{ status: "canceled", error: "Somebody asked." }, "done: The deployment was canceled: Somebody asked."],
  [{ status: "failed" }, "failed: The deployment failed"],
  [
    { status: "failed", errorCode: "BUILD_FAILED", error: "It broke. Last lines:\nboom" },
    "failed: The deployment failed: It broke.",
  ],
  [
    { status: "failed", errorCode: "CRASH_LOOP", error: "It ended." },
    "failed: The deployment failed: It ended.",
    `note: Read what the app printed with \`svc logs --runtime --deployment ${deploymentId}\``,
  ],
])("the log of a deployment that is %j ends with that", (fields, ...lines) => {
  const ending = endingOf(deploymentSchema.parse(aDeployment(fields)));
  expect(ending.map(({ mark, text }) => `${mark}: ${text}`)).toEqual(lines);
});
