import type { Job, JobRun, Run } from "@svc/control/stores/db/tables";
import { isJobRunOver } from "@svc/proto";
import { Check } from "./seen.ts";

/** What every check of scheduled jobs is about, by its number. */
export const jobInvariants: Readonly<Record<number, string>> = {
  37: "a run of a job has one attempt at a time and no more than it may, none after one of which nobody knows how it ended, and ends once",
  38: "no two runs of a job are under way at once",
  39: "of the instants of a job each is begun once and in its time, or told of as missed",
  40: "the jobs of a channel are those of what it serves, with what their owners said of them",
  41: "what is due is begun, and every run ends",
};

const minuteMs = 60_000;
/** How long a decision may be on its way to Postgres: who decided it may have stood still. */
const lateMs = 30_000;
/** How soon after all faults what is due begins. */
const beginsWithinMs = 20_000;
/** How long after its beginning, or its pause, an attempt is over: the longest that any may take, and being told. */
const endsWithinMs = 60_000;

interface KnownRun extends Pick<JobRun, "status" | "attempt_count"> {
  /** The most that its job has allowed since it is there. */
  retries: number;
  outcomes: (string | null)[];
}

const isSame = (job: Job, known: Job | undefined): boolean =>
  job.next_fire_at === known?.next_fire_at &&
  job.schedule === known.schedule &&
  job.retired_at === known.retired_at &&
  job.deployment_id === known.deployment_id &&
  job.user_enabled === known.user_enabled &&
  job.source_enabled === known.source_enabled;

/** Looks at scheduled jobs, at their rows after every transaction, and at their containers. */
export class JobChecks extends Check {
  private readonly runs = new Map<string, KnownRun>();
  private readonly jobs = new Map<string, Job>();
  /** What owners said, by project and name. */
  private readonly said = new Map<string, boolean>();
  private readonly underWay = new Map<string, string>();
  private readonly fired = new Set<string>();
  private open: readonly JobRun[] = [];
  /** By host: the deployment that visitors get. */
  private readonly serves = new Map<string, string | null>();
  private saysMore = false;

  private get tables() {
    return this.world.postgres.tables.jobs;
  }

  /** Called in the transaction in which an owner has a job scheduled or not. */
  onSaid({ project_id, name }: Pick<Job, "project_id" | "name">, enabled: boolean): void {
    this.said.set(`${project_id} ${name}`, enabled);
    this.saysMore = true;
  }

  isOfJob(attemptId: string): boolean {
    return this.tables.attempts.has(attemptId);
  }

  /** Its outcome is written down: what its record says from now on is nobody's concern. */
  isConcluded(attemptId: string): boolean {
    return (this.tables.attempts.get(attemptId)?.outcome ?? null) !== null;
  }

  /** It is of a job, and may be under way still. */
  hasBegunLately(attemptId: string): boolean {
    const { started_at = null } = this.tables.attempts.get(attemptId) ?? {};
    return started_at !== null && this.world.postgres.nowMs() - started_at.getTime() <= endsWithinMs;
  }

  /** Called after every transaction. */
  onRows = (): void => {
    const { jobs, runs, open } = this.tables;
    const begun = new Map<string, JobRun[]>();
    this.underWay.clear();
    // Those that are over stay so, which is looked at whenever another one begins.
    const isMore = runs.size > this.runs.size;
    for (const run of isMore ? runs.values() : [...this.open, ...open.values()]) {
      const isNew = isMore && !this.runs.has(run.id);
      this.onRun(run);
      if (isNew && run.trigger === "schedule") begun.set(run.job_id, [...(begun.get(run.job_id) ?? []), run]);
    }
    this.open = [...open.values()];
    let isChanged = this.saysMore;
    for (const job of jobs.values()) {
      if (!isMore && isSame(job, this.jobs.get(job.id))) continue;
      isChanged = true;
      this.onJob(job, begun.get(job.id) ?? []);
    }
    for (const { host, deploymentId, stopped } of this.world.postgres.tables.sites.values()) {
      const serves = stopped ? "nothing" : deploymentId;
      if (this.serves.get(host) !== serves) isChanged = true;
      this.serves.set(host, serves);
    }
    if (isChanged) this.onChannels();
    this.saysMore = false;
  };

  private onRun(run: JobRun): void {
    const known = this.runs.get(run.id);
    if (known !== undefined && isJobRunOver(known.status)) {
      if (known.status !== run.status || known.attempt_count !== run.attempt_count)
        this.fail(37, `run ${run.id} was ${known.status}, and is ${run.status}`);
      if ((this.tables.attemptsOf.get(run.id)?.length ?? 0) > known.outcomes.length)
        this.fail(37, `run ${run.id} is ${run.status}, and has another attempt`);
      return;
    }
    const attempts = this.tables.attemptsOf.get(run.id) ?? [];
    const retries = Math.max(known?.retries ?? 0, this.tables.jobs.get(run.job_id)?.retries ?? 0);
    this.onAttempts(run, attempts, { retries, before: known?.outcomes ?? [] });
    const outcomes = attempts.map(({ outcome }) => outcome);
    this.runs.set(run.id, { status: run.status, attempt_count: run.attempt_count, retries, outcomes });
    if (run.status !== "running" && run.status !== "cancel_requested") return;
    const other = this.underWay.get(run.job_id);
    if (other !== undefined && other !== run.id) this.fail(38, `runs ${other} and ${run.id} of one job are under way`);
    this.underWay.set(run.job_id, run.id);
  }

  private onAttempts(
    run: JobRun,
    attempts: readonly Run[],
    { retries, before }: { retries: number; before: readonly (string | null)[] },
  ): void {
    const open = attempts.filter(({ outcome }) => outcome === null);
    if (open.length > 1) this.fail(37, `run ${run.id} has ${open.length} attempts at once`);
    const began = attempts.filter(({ outcome, started_at }) => started_at !== null && outcome !== "not_started");
    if (began.length > 1 + retries) this.fail(37, `run ${run.id} began ${began.length} times, of 1 + ${retries}`);
    for (const [at, { id, outcome }] of attempts.entries()) {
      const was = before[at] ?? null;
      if (was !== null && was !== outcome) this.fail(37, `attempt ${id} was ${was}, and is ${outcome}`);
      if (outcome === "unknown" && at < attempts.length - 1)
        this.fail(37, `run ${run.id} has another attempt, and nobody knows how ${id} ended`);
    }
  }

  /** What the clock did: `begun` since the last transaction. */
  private onJob(job: Job, begun: readonly JobRun[]): void {
    const { next_fire_at, schedule } = job;
    const known = this.jobs.get(job.id);
    this.jobs.set(job.id, { ...job });
    for (const run of begun) this.onInstant(job, run);
    const from = known?.next_fire_at ?? null;
    const isClock = from !== null && next_fire_at !== null && next_fire_at > from && known?.schedule === schedule;
    if (!isClock) {
      if (begun.length > 0) this.fail(39, `${begun.length} runs of ${job.name} were begun, and none was due`);
      return;
    }
    const wanted = Math.round((next_fire_at.getTime() - from.getTime()) / minuteMs);
    const told = begun.reduce((sum, { missed }) => sum + Math.max(missed, 1), 0);
    if (told !== wanted)
      this.fail(39, `of ${wanted} instants of ${job.name} from ${from.toISOString()} on ${told} were begun or told of`);
    const behindMs = this.world.postgres.nowMs() - next_fire_at.getTime();
    if (behindMs > lateMs)
      this.fail(39, `${job.name} begins at ${from.toISOString()}, and ${next_fire_at.toISOString()} is past as well`);
  }

  private onInstant(job: Job, { fire_at }: JobRun): void {
    const atMs = fire_at?.getTime() ?? Number.NaN;
    const at = `${job.id} ${atMs}`;
    if (this.fired.has(at)) this.fail(39, `two runs of ${job.name} for ${fire_at?.toISOString()}`);
    this.fired.add(at);
    if (atMs % minuteMs !== 0)
      this.fail(39, `a run of ${job.name} for ${fire_at?.toISOString()}, which is no instant of it`);
    if (atMs > this.world.postgres.nowMs())
      this.fail(39, `a run of ${job.name} for ${fire_at?.toISOString()}, which is still to come`);
  }

  private onChannels(): void {
    const { sites } = this.world.postgres.tables;
    for (const { host, projectId, deploymentId, stopped } of sites.values()) {
      const wanted = deploymentId === null ? [] : (this.tables.definitions.get(deploymentId) ?? []);
      const live = this.tables.live(projectId);
      if (live.length !== wanted.length || wanted.some(({ name }) => !live.some((job) => job.name === name)))
        this.fail(40, `${host} serves ${deploymentId} with ${wanted.length} jobs, and has ${live.length} of it`);
      for (const job of live) {
        if (job.deployment_id !== deploymentId)
          this.fail(40, `${job.name} of ${host} is of ${job.deployment_id}, and ${deploymentId} is served`);
        const said = this.said.get(`${projectId} ${job.name}`) ?? null;
        if (job.user_enabled !== said)
          this.fail(40, `the owner of ${job.name} of ${host} said ${said}, and it says ${job.user_enabled}`);
        const isWanted = job.source_enabled && said !== false && !stopped;
        if (isWanted !== (job.next_fire_at !== null))
          this.fail(40, `${job.name} of ${host} is ${isWanted ? "not " : ""}scheduled, and is to be otherwise`);
      }
    }
  }

  /** Called when the command of an attempt begins in the world. */
  onStart(attemptId: string): void {
    const { attempts, runs } = this.tables;
    const attempt = attempts.get(attemptId);
    const run = runs.get(attempt?.owner_id ?? "");
    if (attempt === undefined || run === undefined) return;
    if (attempt.outcome === "not_started" || (attempt.outcome === null && attempt.started_at === null))
      this.fail(37, `attempt ${attemptId} begins, and its row says ${attempt.outcome ?? "that it was not granted"}`);
    for (const { docker } of this.world.nodes) {
      for (const { id, state, gate } of docker.containers.values()) {
        const other = attempts.get(id);
        if (other === undefined || id === attemptId || state !== "running" || gate !== "claimed") continue;
        // Of whom nobody knows whether it ran, nobody knows either when it does.
        if ([attempt, other].some(({ outcome }) => outcome === "unknown")) continue;
        if (runs.get(other.owner_id)?.job_id !== run.job_id) continue;
        this.fail(38, `attempt ${attemptId} begins while ${id} of the same job runs`);
      }
    }
  }

  /** Two minutes after the last fault. */
  checkSettled(): void {
    for (const run of this.tables.runs.values()) this.onRun(run);
    const nowMs = this.world.postgres.nowMs();
    for (const { name, next_fire_at } of this.tables.jobs.values())
      if (next_fire_at !== null && nowMs - next_fire_at.getTime() > beginsWithinMs)
        this.fail(41, `${name} was to be begun at ${next_fire_at.toISOString()}`);
  }

  /** A while after all jobs were switched off. */
  checkRest(): void {
    for (const run of this.tables.runs.values()) this.onRun(run);
    const nowMs = this.world.postgres.nowMs();
    const well = new Set(
      this.world.nodes
        .filter(
          ({ isConnected, process, machineId }) => isConnected && process.alive && !this.world.isCloned(machineId),
        )
        .map(({ nodeId }) => nodeId),
    );
    const seen = new Set<string>();
    for (const run of this.tables.open.values()) {
      const isFirst = !seen.has(run.job_id);
      seen.add(run.job_id);
      const attempt = (this.tables.attemptsOf.get(run.id) ?? []).find(({ outcome }) => outcome === null);
      // While a node is away nobody knows whether it runs; what has no room waits.
      if (!isFirst || run.reason === "capacity" || (attempt !== undefined && !well.has(attempt.node_id))) continue;
      const sinceMs = Math.max(...[run.created_at, run.retry_at, attempt?.started_at].map((at) => at?.getTime() ?? 0));
      if (nowMs - sinceMs > endsWithinMs) this.fail(41, `run ${run.id} is still ${run.status} (${run.reason ?? ""})`);
    }
  }
}
