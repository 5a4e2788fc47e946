// @pure

/** Capabilities that we ask for by name. Those of MariaDB alone stand above the 32 bits of MySQL's. */
export const capability = {
  /** Of a client: it knows none of MariaDB's own. */
  mysql: 1n << 0n,
  connectWithDb: 1n << 3n,
  compress: 1n << 5n,
  localFiles: 1n << 7n,
  protocol41: 1n << 9n,
  ssl: 1n << 11n,
  secureConnection: 1n << 15n,
  pluginAuth: 1n << 19n,
  connectAttributes: 1n << 20n,
  lengthEncodedAuth: 1n << 21n,
  zstd: 1n << 26n,
} as const;

/** How many bits MySQL's have. */
export const mysqlBits = 32n;

/** What every server of 10.6 and later greets with. The mark of MySQL is not among it: it is MariaDB's servers that are behind. */
const ofEveryServer = 0x1d_81ff_f7fen;

/**
 * What clients are greeted with before anybody knows which server they will reach. Between containers and this machine
 * there is no TLS, and a compressed stream could not be passed on; files of the app's own disk are nothing to load from.
 */
export const greeted = ofEveryServer & ~(capability.compress | capability.localFiles | capability.ssl);

/** Without these a client cannot be asked to prove itself anew. */
const needed = capability.protocol41 | capability.secureConnection | capability.pluginAuth;
/** These would make the stream another than the one that was agreed on. */
const fatal = capability.compress | capability.ssl | capability.zstd;

/**
 * What is agreed on with a client that answers the greeting with `client`; null when there is no agreement. Many clients set
 * bits that they were not offered, and servers do not look at them: they are left away.
 */
export function agreed(client: bigint): bigint | null {
  if ((client & needed) !== needed || (client & fatal) !== 0n) return null;
  return client & (greeted | capability.mysql);
}

/** Whether a server that greets with `server` keeps what a client was promised. Which bits a server lacks changes how each reads the other. */
export const isKept = (agreedOn: bigint, server: bigint): boolean => (agreedOn & ~capability.mysql & ~server) === 0n;
