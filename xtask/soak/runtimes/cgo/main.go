// Goroutines allocate in C and free each other's blocks; callbacks from C allocate in Go; what it prints is compared.
package main

/*
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <stdio.h>

struct node { struct node *next; uint64_t value; char body[]; };

static struct node *chain(int length, int seed) {
    struct node *head = NULL;
    for (int i = 0; i < length; i++) {
        struct node *node = malloc(sizeof *node + (size_t)(i * seed % 700) + 1);
        node->next = head;
        node->value = (uint64_t)i * (uint64_t)seed;
        head = node;
    }
    return head;
}
static uint64_t fell(struct node *head) {
    uint64_t sum = 0;
    while (head) {
        struct node *next = head->next;
        sum = sum * 31 + head->value;
        free(head);
        head = next;
    }
    return sum;
}
static char *text(const char *from, int times) {
    char *made = NULL;
    size_t len = 0;
    for (int i = 0; i < times; i++) {
        size_t more = strlen(from);
        made = realloc(made, len + more + 1);
        memcpy(made + len, from, more + 1);
        len += more;
    }
    return made;
}
*/
import "C"

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"unsafe"
)

func main() {
	const workers = 8
	chains := make(chan *C.struct_node, 64)
	sums := make(chan uint64, 64)
	var makers, takers sync.WaitGroup
	for worker := 1; worker <= workers; worker++ {
		makers.Add(1)
		go func(seed int) {
			defer makers.Done()
			for round := 0; round < 200; round++ {
				chains <- C.chain(C.int(100+round%50), C.int(seed*37))
			}
		}(worker)
		takers.Add(1)
		go func() {
			defer takers.Done()
			for head := range chains {
				sums <- uint64(C.fell(head))
			}
		}()
	}
	go func() { makers.Wait(); close(chains); takers.Wait(); close(sums) }()
	total, count := uint64(0), 0
	for sum := range sums {
		total += sum
		count++
	}
	fmt.Println(count, total)
	word := C.CString("from go to c ")
	made := C.text(word, 20000)
	fmt.Printf("%d %x\n", C.strlen(made), sha256.Sum256([]byte(C.GoString(made))))
	C.free(unsafe.Pointer(made))
	C.free(unsafe.Pointer(word))
	var threads sync.WaitGroup
	for thread := 0; thread < 200; thread++ {
		threads.Add(1)
		go func() {
			// A locked goroutine that ends takes its thread with it.
			runtime.LockOSThread()
			C.fell(C.chain(50, 3))
			threads.Done()
		}()
	}
	threads.Wait()
	for child := 0; child < 10; child++ {
		out, err := exec.Command("echo", fmt.Sprint("child ", child)).Output()
		fmt.Print(string(out))
		if err != nil {
			panic(err)
		}
	}
}
