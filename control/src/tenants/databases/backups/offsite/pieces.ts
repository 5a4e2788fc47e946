// @pure
/** What a file is cut into. Sealing one is short enough that nobody waits for it, and few are in memory at once. */
export const pieceBytes = 8 * 1024 * 1024;

/** What sealing adds to a piece, and more. */
const sealBytesMax = 1024;

/** The bytes of a piece's object at most. */
export const objectBytesMax = (file: { piece_bytes: number }): number => file.piece_bytes + sealBytesMax;

/** The name of a piece's object. It tells nothing of whose it is. */
export const pieceName = (fileId: string, index: number): string =>
  `backups/${fileId}/${String(index).padStart(6, "0")}`;

/** What a piece is sealed for: that one of one file, so that no other opens in its place. */
export const pieceAad = (fileId: string, index: number): string => `offsite/${pieceName(fileId, index)}`;

/** Of how many pieces a file of that size is. */
export const piecesOf = (sizeBytes: number, { piece_bytes }: { piece_bytes: number }): number =>
  Math.ceil(sizeBytes / piece_bytes);
