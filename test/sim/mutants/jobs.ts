import { nextFire } from "@svc/proto";
import type { Mutant } from "./mutants.ts";

/** Bugs that somebody could make of scheduled jobs. */
export const jobMutants = {
  J1: {
    breaks: "a clock that was away makes up for every instant of a job that was missed",
    foundBySeed: 24,
    patches: {
      clockStep: (real) => (job, now) => {
        const fireAt = job.next_fire_at;
        const next = nextFire(job.schedule, job.timezone, fireAt);
        return { ...real(job, now), run: fireAt, missed: null, lastFireAt: fireAt, nextFireAt: next };
      },
    },
  },
  J2: {
    breaks: "whoever begins to lead runs each job once",
    patches: {
      createJobClock: (real) => (deps) => {
        let isNew = true;
        const moment = async () => {
          const read = await deps.rows.moment();
          const isEarly = isNew && read.firstDueAt !== null && read.firstDueAt > read.now;
          if (isEarly) isNew = false;
          return isEarly ? { ...read, now: read.firstDueAt ?? read.now } : read;
        };
        return real({ ...deps, rows: { ...deps.rows, moment } });
      },
    },
  },
  J3: {
    breaks: "overlap looks past a run of whose attempt nobody hears",
    foundBySeed: 15,
    patches: {
      nextJobRunStep: (real) => {
        const lost = new Map<string, string>();
        return (facts) => {
          const { attempt, id, jobId } = facts;
          if (facts.isFirst && (attempt === null || attempt.nodeLostAt === null)) lost.delete(jobId);
          else if (facts.isFirst) lost.set(jobId, id);
          return real({ ...facts, isFirst: facts.isFirst || lost.has(jobId) });
        };
      },
    },
  },
  J4: {
    breaks: "what a job does next counts from now, and what passed meanwhile is forgotten",
    foundBySeed: 24,
    patches: {
      clockStep: (real) => (job, now) => {
        const fireAt = job.next_fire_at;
        const next = nextFire(job.schedule, job.timezone, now);
        return { ...real(job, now), run: fireAt, missed: null, lastFireAt: fireAt, nextFireAt: next };
      },
    },
  },
  J5: {
    breaks: "a run is tried again when nobody knows how its attempt ended",
    foundBySeed: 52,
    patches: {
      afterAttempt: (real) => (end, soFar) =>
        real(end.outcome === "unknown" ? { ...end, outcome: "failed" } : end, soFar),
    },
  },
  J6: {
    breaks: "the jobs of a channel change in a transaction after the one in which a deployment takes it",
    patches: {
      switchChannelJobs: (real) => {
        const later = new Map<string, string | null>();
        return (tx, projectId, deploymentId) => {
          for (const [project, deployment] of later) if (project !== projectId) real(tx, project, deployment);
          later.clear();
          later.set(projectId, deploymentId);
        };
      },
    },
  },
  J7: {
    breaks: "what an owner said of a job is kept by deployment, and so lost with the next one",
    patches: {
      switchChannelJobs: (real) => (tx, projectId, deploymentId) => {
        for (const job of tx.tables.jobs.jobs.values()) {
          if (job.project_id === projectId && job.deployment_id !== deploymentId) job.user_enabled = null;
        }
        real(tx, projectId, deploymentId);
      },
    },
  },
} satisfies Record<string, Mutant>;
