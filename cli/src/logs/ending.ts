import { type Deployment, type DeploymentStatus, splitLastLines } from "@svc/proto";
import { failureHint, startFailed } from "../deploy/failure-hint.ts";
import type { Mark } from "../terminal.ts";

/** A line on what became of a deployment. */
export interface Ending {
  text: string;
  mark: Mark;
}

const states: Readonly<Record<DeploymentStatus, string>> = {
  queued: "The deployment waits for its turn",
  building: "The deployment is building",
  deploying: "The deployment is starting",
  running: "The deployment is running",
  failed: "The deployment failed",
  superseded: "The deployment ran, and a newer one has taken its place",
  canceled: "The deployment was canceled",
  stopped: "The deployment is stopped",
};

/** What a build log ends with: what became of its deployment, and where to read what this log does not know. */
export function endingOf(deployment: Deployment): Ending[] {
  const { id, status, error } = deployment;
  const reason = error === null ? "" : `: ${splitLastLines(error).reason}`;
  const text = `${states[status]}${reason}`;
  if (status === "failed")
    return [
      { text, mark: "failed" },
      ...(startFailed(deployment) ? [{ text: failureHint(deployment), mark: "note" as const }] : []),
    ];
  const isOpen = status === "queued" || status === "building" || status === "deploying";
  return [isOpen ? { text: `${text}. Follow it with \`svc logs -f ${id}\``, mark: "note" } : { text, mark: "done" }];
}
