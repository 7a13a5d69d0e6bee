// SPDX-License-Identifier: Apache-2.0
// Moves through cells with the keyboard: to the next one in a direction, as it is seen.
export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const middle = (box: Box): [number, number] => [(box.left + box.right) / 2, (box.top + box.bottom) / 2];

/** The place to go to from `from`, -1 for none: by order for left and right, by sight for up and down. */
export function nextPlace(key: string, from: number, boxes: readonly Box[]): number {
  const last = boxes.length - 1;
  switch (key) {
    case "ArrowLeft":
      return from > 0 ? from - 1 : -1;
    case "ArrowRight":
      return from < last ? from + 1 : -1;
    case "Home":
      return last >= 0 ? 0 : -1;
    case "End":
      return last;
    case "ArrowUp":
      return nearest(from, boxes, -1);
    case "ArrowDown":
      return nearest(from, boxes, 1);
    default:
      return -1;
  }
}

function nearest(from: number, boxes: readonly Box[], direction: number): number {
  const start = boxes[from];
  if (!start) return -1;
  const [x, y] = middle(start);
  let best = -1;
  let least = Infinity;
  boxes.forEach((box, place) => {
    const [otherX, otherY] = middle(box);
    const ahead = (otherY - y) * direction;
    if (ahead <= (start.bottom - start.top) / 2) return;
    // A row further away never wins over a nearer one for being better aligned.
    const distance = ahead * 1000 + Math.abs(otherX - x);
    if (distance < least) {
      least = distance;
      best = place;
    }
  });
  return best;
}
