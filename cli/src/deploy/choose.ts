import { type DeploymentListItem, isOpen } from "@svc/proto";
import { CliError } from "../errors.ts";

/** What a choice is made from: deployments of one project, newest first. */
type Listed = Pick<DeploymentListItem, "id" | "channel" | "status" | "gitPrNumber">;

/** What a rollback without an id goes back to; null when nothing was superseded. */
export const latestSuperseded = <T extends Listed>(deployments: readonly T[]): T | null =>
  deployments.find(({ channel, status }) => channel === "production" && status === "superseded") ?? null;

/** The running preview that a promotion without an id means: the stable one, else the only one. */
export function runningPreview<T extends Listed>(deployments: readonly T[]): T {
  const running = deployments.filter(({ channel, status }) => channel === "preview" && status === "running");
  const chosen = running.find(({ gitPrNumber }) => gitPrNumber === null) ?? onlyOne(running);
  if (chosen !== null) return chosen;
  if (running.length > 0) throw ambiguous("previews run", "promote", running);
  throw new CliError("CLOUD_REQUEST_FAILED", "PROMOTE_UNAVAILABLE: No preview is running", {
    hint: "Deploy one with `svc deploy --preview`, or see what runs with `svc status`",
  });
}

/** The deployment on its way that a cancellation without an id means: the only one. */
export function openDeployment<T extends Listed>(deployments: readonly T[]): T {
  const open = deployments.filter(({ status }) => isOpen(status));
  const chosen = onlyOne(open);
  if (chosen !== null) return chosen;
  if (open.length > 0) throw ambiguous("deployments are on their way", "cancel", open);
  throw new CliError("CLOUD_REQUEST_FAILED", "CANCEL_UNAVAILABLE: No deployment is on its way", {
    hint: "See what became of the last one with `svc status`",
  });
}

/**
 * The deployment that stands for the preview of a pull request: the one that visitors see, else the one on its way,
 * else the last there was.
 */
export function previewOf<T extends Listed>(deployments: readonly T[], prNumber: number): T | null {
  const own = deployments.filter(({ channel, gitPrNumber }) => channel === "preview" && gitPrNumber === prNumber);
  return own.find(({ status }) => status === "running") ?? own.find(({ status }) => isOpen(status)) ?? own[0] ?? null;
}

const onlyOne = <T>(list: readonly T[]): T | null => (list.length === 1 ? (list[0] ?? null) : null);

const ambiguous = (what: string, verb: string, choices: readonly Listed[]): CliError =>
  new CliError("CLI_INVALID_USAGE", [`${choices.length} ${what}; say which`, ...choices.map(describe)].join("\n"), {
    hint: `Name one by its id: \`svc ${verb} ${choices[0]?.id ?? "<id>"}\``,
  });

const describe = ({ id, channel, status, gitPrNumber }: Listed): string =>
  `  ${id}  ${channel}${gitPrNumber === null || channel !== "preview" ? "" : ` #${gitPrNumber}`}, ${status}`;
