import { type Channel, type DeploymentListItem, isOpen } from "@svc/proto";
import { CliError } from "../errors.ts";

/** What a choice is made from: deployments of one project, newest first. */
type Listed = Pick<DeploymentListItem, "id" | "channel" | "status" | "gitPrNumber">;

/** What a rollback without an id goes back to; null when nothing was superseded. */
export const latestSuperseded = <T extends Listed>(deployments: readonly T[]): T | null =>
  deployments.find(({ channel, status }) => channel === "production" && status === "superseded") ?? null;

/** What visitors of a channel get, or would get if it were not stopped; null when nothing of it ever ran. */
export const liveOn = <T extends Listed>(deployments: readonly T[], on: Channel): T | null =>
  deployments.find(({ channel, status }) => channel === on && (status === "running" || status === "stopped")) ?? null;

/** What a deployment's containers or files are, whichever deployment they were made for. */
type Runs = Listed & Pick<DeploymentListItem, "trigger" | "imageRef" | "staticPath">;
const artifactOf = ({ imageRef, staticPath }: Runs): string | null => staticPath ?? imageRef;

/** Whether going back from `live` to the last one that was replaced undoes a rollback: that one was just left. */
export const wasJustLeft = ({ trigger }: Pick<Runs, "trigger">): boolean => trigger === "rollback";

/** What is further back than the rollback that made `live`, and is not what it left; null when that is not shown. */
export function furtherBack<T extends Runs>(deployments: readonly T[], live: T, left: T): T | null {
  const past = deployments.filter(({ channel, status }) => channel === live.channel && status === "superseded");
  const source = past.findIndex((each) => artifactOf(each) !== null && artifactOf(each) === artifactOf(live));
  if (source === -1) return null;
  const known = [live, left].map(artifactOf);
  return past.slice(source + 1).find((each) => !known.includes(artifactOf(each))) ?? null;
}

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

/** The running deployment of a channel whose address is meant: the stable preview, else the only one. */
export function addressedOn<T extends Listed & { url: string }>(deployments: readonly T[], on: Channel): T {
  const running = deployments.filter(({ channel, status }) => channel === on && status === "running");
  const chosen = running.find(({ gitPrNumber }) => on !== "preview" || gitPrNumber === null) ?? onlyOne(running);
  if (chosen !== null) return chosen;
  if (running.length > 0)
    throw new CliError(
      "CLI_INVALID_USAGE",
      [
        `${running.length} previews run, each of a pull request`,
        ...running.map(({ gitPrNumber, url }) => `  #${gitPrNumber}  ${url}`),
      ].join("\n"),
      { hint: "Open the address of the one that you mean" },
    );
  throw new CliError("CLOUD_NOT_FOUND", `Nothing runs on ${on}`, {
    hint: on === "preview" ? "Deploy one with `svc deploy --preview`" : "See what runs with `svc status`",
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
