import { type DoctorReply, type OperatorCheck, type OperatorCheckName, operatorCheckNames } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Log } from "../../../log.ts";
import type { TenantContext } from "../../context.ts";
import { checkOf, type Finding, fail, shortReason } from "./finding.ts";
import { createLooks, type Looks, memberMs } from "./looks.ts";
import { clockText } from "./machines/rules.ts";

const checkMs = 5_000;

type Answer = Omit<DoctorReply, "ok">;

/** By what there is one of in each replica. */
const looking = new WeakMap<TenantContext["operators"], Promise<Answer>>();

/** Looks, or waits for those who look already: each look asks every store, and there may be many who are curious. */
export function lookOnce(context: TenantContext): Promise<Answer> {
  const { operators } = context;
  const running = looking.get(operators);
  if (running !== undefined) return running;
  const round = look(context).finally(() => looking.delete(operators));
  looking.set(operators, round);
  return round;
}

async function look(context: TenantContext): Promise<Answer> {
  const { clock, operators } = context;
  const at = clock.now();
  const startedAtMs = clock.steadyMs();
  const members = operators.etcdMembers(memberMs);
  const looks = createLooks({ ...context, operators: { ...operators, etcdMembers: () => members } });
  const checks = await runChecks(clock, looks, context.log, checkMs);
  const reports = await members;
  const isSilent = reports.length > 0 && reports.every((report) => "error" in report);
  return {
    healthy: checks.every(({ status }) => status !== "fail"),
    at: at.toISOString(),
    answeredInMs: Math.round(clock.steadyMs() - startedAtMs),
    checks: isSilent ? checks.map((check) => asOf(check, operators.viewAsOf())) : checks,
  };
}

/** What these tell is what this replica heard of etcd last. */
const ofView: ReadonlySet<OperatorCheckName> = new Set(["nodes", "edges", "versions", "secrets"]);

const asOf = (check: OperatorCheck, at: Date): OperatorCheck =>
  ofView.has(check.name)
    ? { ...check, detail: `As of ${clockText(at.toISOString())}, as etcd is silent: ${check.detail}` }
    : check;

/** All looks at once. One that fails or takes longer than `timeoutMs` is a finding of its own check and of no other. */
export const runChecks = (clock: Clock, looks: Looks, log: Log, timeoutMs: number): Promise<OperatorCheck[]> =>
  Promise.all(operatorCheckNames.map((name) => runCheck(clock, name, looks[name], log, timeoutMs)));

async function runCheck(
  clock: Clock,
  name: OperatorCheckName,
  look: () => Promise<Finding[]>,
  log: Log,
  timeoutMs: number,
): Promise<OperatorCheck> {
  const late = () => [fail(`No answer within ${timeoutMs / 1000} s.`, hints[name] ?? usualHint)];
  try {
    return checkOf(name, await within(clock, timeoutMs, look(), late));
  } catch (error) {
    log.warn({ err: error, check: name }, "a check of the doctor failed");
    const reason = shortReason(error instanceof Error ? error.message : String(error));
    return checkOf(name, [
      fail(`This could not be looked at: ${reason}.`.replace(/\.\.$/, "."), hints[name] ?? usualHint),
    ]);
  }
}

const usualHint = "See the checks of etcd and Postgres, and control's log.";
const hints: Readonly<Partial<Record<OperatorCheckName, string>>> = {
  registry:
    "See that the registry runs at SVC_REGISTRY_URL and has the certificate of SVC_REGISTRY_TOKEN_CERT_FILE. Sites go on; deploys do not.",
  etcd: "See that etcd runs, and SVC_ETCD_ENDPOINTS.",
  leader: "See the check of etcd: who leads is written there.",
  postgres: "See that Postgres runs and how busy it is.",
};
