/* A recording as the page carries it: the text of a run's recording.json, whose arrays are bytes in
   base64. A byte stands for (byte - zero) * scale. */

/** The recording in an element of the page, its arrays as {shape, scale, zero, bytes}. */
function readRecording(holder) {
  const recording = JSON.parse(holder.textContent);
  for (const array of Object.values(recording.arrays)) {
    array.bytes = Uint8Array.from(atob(array.bytes), (letter) => letter.charCodeAt(0));
  }
  return recording;
}

function decode(array, byte) {
  return (byte - array.zero) * array.scale;
}

/** A number for people, in the two digits that a byte can hold. */
function spell(value) {
  return String(Number(value.toPrecision(2))).replace("-", "−");
}
