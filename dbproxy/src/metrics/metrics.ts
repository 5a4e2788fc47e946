import { createMeter } from "@svc/telemetry";

const prefix = "svc_dbproxy_";

/** What this proxy counts, and what is measured when somebody asks. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Labels are words of a fixed list: never a database, a bridge, or anything that a client wrote.
 *
 * @param options.process whether to measure the process as well: memory, processor, lag of its event loop
 */
export function createMetrics(options: { process?: boolean } = {}) {
  const meter = createMeter(prefix, options);
  const { counter, gauge } = meter;
  return {
    registry: meter.registry,
    tableGeneration: gauge("table_generation", "Generation of the table in force; 0 when there is none"),
    tablesRefused: counter(
      "tables_refused_total",
      "Tables that could not be read, or were older than the one in force",
    ),
    doors: gauge("listeners", "Addresses of bridges at which it listens", ["engine"]),
    doorsMissing: gauge("listeners_missing", "Addresses of the table at which it cannot listen yet", ["engine"]),
    sessions: gauge("sessions", "Connections of apps of this machine, from their login on", ["engine"]),
    opened: counter("sessions_opened_total", "Connections of apps of this machine that reached their server", [
      "engine",
    ]),
    refusals: counter("refusals_total", "Connections of apps of this machine that were refused, by why", [
      "engine",
      "why",
    ]),
    failedLogins: counter("failed_logins_total", "Logins of apps of this machine that a server refused", ["engine"]),
    ended: counter("sessions_ended_total", "Connections that were ended because a table said so"),
    bytes: counter("bytes_total", "Bytes of connections that have ended: in from apps, out to them", [
      "engine",
      "direction",
    ]),
    copyDoors: gauge("copy_doors", "Sockets at which it listens for keepers of copies"),
    copyDoorsMissing: gauge("copy_doors_missing", "Sockets of the table at which it cannot listen yet"),
    copySessions: gauge("copy_sessions", "Connections of keepers of this machine"),
    copyRefusals: counter("copy_refusals_total", "Connections of keepers of this machine that were refused, by why", [
      "engine",
      "why",
    ]),
    copyBytes: counter(
      "copy_bytes_total",
      "Bytes of keepers' connections that have ended: in from keepers, out to them",
      ["engine", "direction"],
    ),
    entrances: gauge("entrances", "Ports at which it listens for edges"),
    entrancesMissing: gauge("entrances_missing", "Ports at which it is to listen for edges, and cannot yet"),
    entranceVisits: gauge("entrance_visits", "Connections of edges, from their first byte on"),
    entrancesRefused: counter("entrances_refused_total", "Connections at entrances that were refused, by why", ["why"]),
    peersRefused: counter(
      "peers_refused_total",
      "Connections of somebody who is no node of this cluster, or was fenced or removed",
    ),
    counted: gauge("connections", "Connections to servers of this machine, from everywhere"),
    beforeReading: meter.beforeReading,
    read: meter.read,
  };
}
