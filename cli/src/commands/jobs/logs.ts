import { argument, command, flag } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { findScope, runIdOf } from "../../jobs/find.ts";
import { endingOfRun } from "../../jobs/lines.ts";
import { followRun, omittedText, readRun, readRunOutput } from "../../jobs/output.ts";
import { createFilter } from "../../logs/filter.ts";
import { splitLines } from "../../logs/lines.ts";
import { askPatiently } from "../../poll.ts";

const attemptMax = 1000;

export const jobsLogs = command({
  name: "jobs logs",
  summary: "Show what a run of a job printed",
  details:
    "Of the newest attempt, unless another is named. --follow goes on until the run is over, through all attempts that are still to come. Of a long output the begin and the end are kept.",
  flags: {
    project: flag.project,
    attempt: flag.integer("--attempt <n>", "Of this attempt, counted from 1"),
    since: flag.text(
      "--since <when>",
      "Only from then on: 15m, 1h30m, 2d, or an ISO timestamp; lines without a time are kept",
    ),
    grep: flag.text("--grep <regex>", "Only lines that fit the regular expression"),
    follow: flag.toggle("-f, --follow", "Go on as more comes, until the run is over"),
  },
  arguments: { runId: argument.required("runId", "The run; see `svc jobs runs`") },
  examples: [
    "svc jobs logs 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --follow",
    "svc jobs logs 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --attempt 1 --grep error",
  ],
  async run(context, { project, attempt, since, grep, follow, runId: named }) {
    if (follow && context.globals.json)
      throw new CliError("CLI_INVALID_USAGE", "--follow and --json do not go together", {
        hint: "Leave one of them out: a followed log is no single JSON object",
      });
    if (attempt !== undefined && (attempt < 1 || attempt > attemptMax))
      throw new CliError("CLI_INVALID_USAGE", `--attempt is 1 to ${attemptMax}, not ${attempt}`, {
        hint: "Leave it out for the newest",
      });
    const keep = createFilter(context.clock.now(), since, grep);
    const runId = runIdOf(named);
    const find = async () => {
      const { api, projectId, project: facts } = await findScope(context, { project });
      return { facts, source: { api, projectId, runId, attempt } };
    };
    const tellEnd = (run: Parameters<typeof endingOfRun>[0]) => {
      const { text, mark } = endingOfRun(run, context.clock.now());
      context.afterwards(text, mark);
    };
    if (follow) {
      // It is looked for before anybody is told that it goes on.
      const { facts, source } = await askPatiently(context, async () => {
        const found = await find();
        await readRun(found.source);
        return found;
      });
      context.onInterrupt(`The run goes on without you. End it with \`svc jobs cancel ${runId}\``);
      const run = await followRun(context, source, keep);
      tellEnd(run);
      return { project: facts, run, attempts: [], attempt: null, log: "", omittedBytes: 0, live: false };
    }
    const { facts, source } = await find();
    const { run, attempts, output } = await readRunOutput(source);
    tellEnd(run);
    const none = { attempt: null, log: "", omittedBytes: 0, live: false };
    const { log, ...rest } = output ?? none;
    if (rest.omittedBytes > 0) context.warn(omittedText(rest.omittedBytes));
    // Untouched unless something is to be left out, so that an output without a last line feed stays without.
    const isFiltered = since !== undefined || grep !== undefined;
    const kept = isFiltered
      ? keep(splitLines(log))
          .map((line) => `${line}\n`)
          .join("")
      : log;
    return { project: facts, run, attempts, ...rest, log: kept };
  },
  render: ({ log }) => log,
});
