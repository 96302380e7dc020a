package sessionstate

import "math/bits"

// marks is a set of positions that finds the nearest member at or before a position. Level 0 has one bit per
// position, each higher level one bit per word of the level below, and the top level one word, so that a
// question costs one or two words per level: two levels up to 4,096 positions, four up to 16 million.
type marks [][]uint64

const wordBits = 64

// add puts position i into the set.
func (m *marks) add(i int) {
	for level := 0; ; level++ {
		if level == len(*m) {
			*m = append(*m, make([]uint64, 1))
			if level > 0 && (*m)[level-1][0] != 0 {
				(*m)[level][0] = 1 // until now that one word needed no summary
			}
		}
		word := i / wordBits
		for len((*m)[level]) <= word {
			(*m)[level] = append((*m)[level], 0)
		}
		(*m)[level][word] |= 1 << (i % wordBits)
		if word == 0 && level == len(*m)-1 {
			return
		}
		i = word
	}
}

// before returns the greatest member that is at most i, or -1.
func (m marks) before(i int) int {
	for level, words := range m {
		if i < 0 {
			break
		}
		word, keep := i/wordBits, ^uint64(0)
		if word < len(words) {
			keep >>= wordBits - 1 - i%wordBits
		} else {
			word = len(words) - 1 // past the last word that was ever needed
		}
		if set := words[word] & keep; set != 0 {
			i = word*wordBits + bits.Len64(set) - 1
			for level > 0 {
				level--
				i = i*wordBits + bits.Len64(m[level][i]) - 1
			}
			return i
		}
		i = word - 1
	}
	return -1
}
