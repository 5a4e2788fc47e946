import { appendFile } from "node:fs/promises";
import type { Context } from "../context.ts";

/** What a pipeline may want to know of a deploy. `url` only when it succeeded, `error` only for its summary page. */
export interface DeployFacts {
  deployment_id: string;
  channel: string;
  status: string;
  release_status: string;
  dashboard_url: string;
  url?: string;
  error?: string;
}

/**
 * The facts as GitHub Actions reads step outputs. The delimiter is random per value, so that no value can
 * end itself and set another output.
 */
export const stepOutputs = ({ error: _, ...facts }: DeployFacts, newDelimiter: () => string): string =>
  Object.entries(facts)
    .map(([name, value]) => {
      const delimiter = newDelimiter();
      return `${name}<<${delimiter}\n${oneLine(value)}\n${delimiter}\n`;
    })
    .join("");

/** The facts as a section of the job's summary page. Values stand in code spans, where nothing of them is markup. */
export function stepSummary(facts: DeployFacts): string {
  const rows = Object.entries(facts).map(([name, value]) => `| ${name.replaceAll("_", " ")} | ${code(value)} |`);
  return ["### svc deploy", "", "| | |", "|---|---|", ...rows, "", ""].join("\n");
}

const oneLine = (value: string): string => value.replace(/\p{Cc}+/gu, " ");
const code = (value: string): string => `\`${oneLine(value).replaceAll("`", "'").replaceAll("|", "\\|")}\``;

/** Appends to the files that GitHub Actions names; elsewhere nothing. A pipeline must not fail for its decoration. */
export async function tellPipeline(context: Context, facts: DeployFacts): Promise<void> {
  const { env, random } = context;
  const files = [
    [env["GITHUB_OUTPUT"], stepOutputs(facts, () => `svc_${random.uuid()}`)],
    [env["GITHUB_STEP_SUMMARY"], stepSummary(facts)],
  ] as const;
  for (const [file, text] of files) {
    if (!file) continue;
    await appendFile(file, text).catch((thrown: unknown) => {
      context.warn(`The step's outputs were not written: ${thrown instanceof Error ? thrown.message : ""}`);
    });
  }
}
